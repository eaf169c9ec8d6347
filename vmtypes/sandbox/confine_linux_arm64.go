package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls returns the system calls that exist only on this architecture.
func archCalls() []int { return nil }
