package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// domain describes approximately the same VM for libvirt.
//
//go:embed driver/domain.xml
var domain string

const domainName = "vmop-bench"

// libvirtCandidate starts the VM with virsh, if libvirt is installed and one start has succeeded. The VM has its own
// TPM, firmware variables and copy of the cloud-init image.
func (b *bench) libvirtCandidate(v *benchVM, image []byte, peer string) candidate {
	c := candidate{name: "virsh: create, then resume", peer: peer}
	if c.skipped = missingPackage("virsh", "libvirt-daemon-system"); c.skipped != "" {
		return c
	}
	file, err := v.writeDomain(image)
	if err == nil {
		_, err = b.runDomain(file) // it may be installed but not work here
	}
	if err != nil {
		c.skipped = "libvirt: " + strings.Join(strings.Fields(err.Error()), " ")
		return c
	}
	c.once = func() (map[string]float64, error) { return b.runDomain(file) }
	return c
}

func (v *benchVM) writeDomain(image []byte) (string, error) {
	seed := filepath.Join(v.dir, "libvirt-seed.img")
	parsed, err := template.New("domain").Parse(domain)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, map[string]string{"Name": domainName, "Disk": v.diskFile(), "Seed": seed, "Dir": v.dir})
	file := filepath.Join(v.dir, "domain.xml")
	return file, errors.Join(err, os.WriteFile(seed, image, 0o644), os.WriteFile(file, text.Bytes(), 0o644))
}

func (b *bench) runDomain(file string) (map[string]float64, error) {
	begin := time.Now()
	start := fmt.Sprintf("create %s --paused; resume %s", file, domainName)
	out, err := exec.CommandContext(b.ctx, "virsh", "-q", start).CombinedOutput()
	took := toMillis(time.Since(begin))
	if err != nil {
		_ = exec.CommandContext(b.ctx, "virsh", "-q", "destroy", domainName).Run() // the domain may exist, paused
		return nil, fmt.Errorf("start the domain: %w\n%s", err, out)
	}
	if out, err := exec.CommandContext(b.ctx, "virsh", "-q", "destroy", domainName).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("destroy the domain: %w\n%s", err, out)
	}
	return map[string]float64{"start": took}, nil
}
