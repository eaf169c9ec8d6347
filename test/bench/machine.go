package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// machine describes the machine and the programs of a measurement.
type machine struct {
	Date     string    `json:"date"`
	CPU      string    `json:"cpu"`
	CPUs     int       `json:"cpus"`
	Memory   string    `json:"memory"`
	Kernel   string    `json:"kernel"`
	Versions []version `json:"versions"`
}

// version is the version of a program, or "" if it is not installed.
type version struct {
	Program string `json:"program"`
	Version string `json:"version"`
}

func thisMachine(ctx context.Context) machine {
	m := machine{
		Date: time.Now().UTC().Format(time.DateOnly), CPUs: runtime.NumCPU(),
		Kernel: firstLine(readProc("/proc/sys/kernel/osrelease")),
		CPU:    procField(readProc("/proc/cpuinfo"), "model name"),
		Memory: procField(readProc("/proc/meminfo"), "MemTotal"),
	}
	m.Versions = append(m.Versions, version{"go", runtime.Version()})
	for _, command := range [][]string{
		{"qemu-system-x86_64", "--version"},
		{"swtpm", "--version"},
		{"cc", "--version"},
		{"mformat", "--version"},
		{"genisoimage", "--version"},
		{"libvirtd", "--version"},
	} {
		m.Versions = append(m.Versions, version{command[0], versionOf(ctx, command)})
	}
	return m
}

// versionOf returns the first word with a digit in the output's first line, after the program's name.
func versionOf(ctx context.Context, command []string) string {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return ""
	}
	return findVersion(string(out))
}

func findVersion(output string) string {
	return regexp.MustCompile(`\d+(\.\d+)+`).FindString(firstLine(output))
}

// String returns the lines above the table.
func (m machine) String() string {
	var list []string
	for _, v := range m.Versions {
		if v.Version == "" {
			v.Version = "not installed"
		}
		list = append(list, v.Program+" "+v.Version)
	}
	return fmt.Sprintf("date      %s\nmachine   %d x %s, %s, Linux %s\nversions  %s\n",
		m.Date, m.CPUs, m.CPU, m.Memory, m.Kernel, strings.Join(list, ", "))
}

// readProc returns the content of a file of /proc, or "" if it doesn't exist.
func readProc(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// procField returns the value of the first line "name: value" of a file.
func procField(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
