package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archCalls returns the system calls that exist only on this architecture.
func archCalls() []int { return []int{unix.SYS_EPOLL_WAIT} }
