package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// archCalls are those that only this architecture has.
func archCalls() []int { return []int{unix.SYS_EPOLL_WAIT} }
