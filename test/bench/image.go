package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"vmop/cloudinit"
	"vmop/cloudinit/disk"
)

// measureImage creates images from the same four files in several ways.
func measureImage(b *bench) ([]result, error) {
	dir := filepath.Join(b.dir, "image")
	seed := cloudinit.Seed{
		MetaData:      []byte("instance-id: bench-1\nlocal-hostname: bench\n"),
		UserData:      []byte("#cloud-config\nusers:\n  - name: bench\n"),
		NetworkConfig: []byte("version: 2\nethernets: {eth0: {dhcp4: true}}\n"),
		VendorData:    []byte("#cloud-config\n{}\n"),
	}
	names := []string{"meta-data", "user-data", "network-config", "vendor-data"}
	err := os.MkdirAll(dir, 0o700)
	for i, content := range [][]byte{seed.MetaData, seed.UserData, seed.NetworkConfig, seed.VendorData} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, names[i]), content, 0o600))
	}
	if err != nil {
		return nil, err
	}
	command := func(words ...string) *exec.Cmd {
		cmd := exec.CommandContext(b.ctx, words[0], words[1:]...)
		cmd.Dir = dir
		return cmd
	}
	const mtools = "mformat and mcopy"
	candidates := []candidate{
		{name: "cloudinit/disk.Write", peer: mtools, once: timedRun(func() error {
			return disk.Write(filepath.Join(dir, "ours.img"), seed)
		})},
		{name: mtools, skipped: missingPackage("mformat", "mtools"), once: timedRun(func() error {
			return errors.Join(
				os.RemoveAll(filepath.Join(dir, "mtools.img")),
				command("mformat", "-C", "-f", "1440", "-v", "CIDATA", "-i", "mtools.img", "::").Run(),
				command(append(append([]string{"mcopy", "-i", "mtools.img"}, names...), "::")...).Run(),
			)
		})},
		{
			name: "genisoimage", peer: mtools, skipped: missingPackage("genisoimage", "genisoimage"),
			once: timedRun(func() error {
				iso := []string{"genisoimage", "-quiet", "-output", "seed.iso", "-volid", "cidata", "-joliet", "-rock"}
				return command(append(iso, names...)...).Run()
			}),
		},
	}
	all, err := b.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	return withGoal(all.compareCandidates(candidates, "time", "ms"), candidates[0].name, 2, 0), nil
}

func timedRun(do func() error) func() (map[string]float64, error) {
	return func() (map[string]float64, error) {
		begin := time.Now()
		err := do()
		return map[string]float64{"time": toMillis(time.Since(begin))}, err
	}
}

// missingPackage returns the package of a program that is not installed, or "".
func missingPackage(program, deb string) string {
	if _, err := exec.LookPath(program); err != nil {
		return "install the package " + deb
	}
	return ""
}
