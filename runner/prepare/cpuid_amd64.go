package prepare

// readCPUID returns two registers that the instruction CPUID sets for a leaf.
func readCPUID(leaf uint32) (eax, ebx uint32)
