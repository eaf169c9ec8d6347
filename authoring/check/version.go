package check

import (
	"context"
	"os/exec"
	"strings"
)

// versionOf returns the version of a QEMU program, such as "7.2.22"; "" if it is unknown.
func (c *Checker) versionOf(ctx context.Context, program string) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	version, known := c.versions[program]
	if !known {
		said, _ := exec.CommandContext(ctx, program, "--version").Output() // the version stays unknown
		_, after, _ := strings.Cut(string(said), " version ")
		version, _, _ = strings.Cut(after, "\n")
		version, _, _ = strings.Cut(version, " ")
		if c.versions == nil {
			c.versions = map[string]string{}
		}
		c.versions[program] = version
	}
	return version
}
