//go:build !amd64

package prepare

// readCPUID returns zeros, because only x86 CPUs have the instruction CPUID.
func readCPUID(uint32) (eax, ebx uint32) { return 0, 0 }
