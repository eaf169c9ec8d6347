package vmspec

// Sizes are the CPUs and the memory of a VM. A zero field is absent.
type Sizes struct {
	MaximumCPUs int   `yaml:"maximumCpus"`
	CurrentCPUs int   `yaml:"currentCpus"`
	MaximumRAM  Bytes `yaml:"maximumRam"`
	CurrentRAM  Bytes `yaml:"currentRam"`
}

// Sizes returns the sizes that s contains.
func (s Spec) Sizes() Sizes { return Sizes{s.MaximumCPUs, s.CurrentCPUs, s.MaximumRAM, s.CurrentRAM} }

// AreComplete reports whether no size is absent.
func (s Sizes) AreComplete() bool {
	return s.MaximumCPUs != 0 && s.CurrentCPUs != 0 && s.MaximumRAM != 0 && s.CurrentRAM != 0
}

// WithOtherDefaults is WithDefaults without the defaults of sizes, which the VM type may decide.
func (s Spec) WithOtherDefaults() Spec { return s.WithDefaults().ReplaceSizes(s.Sizes()) }

// ReplaceSizes returns a copy with other sizes, which shares the rest with s.
func (s Spec) ReplaceSizes(by Sizes) Spec {
	s.MaximumCPUs, s.CurrentCPUs = by.MaximumCPUs, by.CurrentCPUs
	s.MaximumRAM, s.CurrentRAM = by.MaximumRAM, by.CurrentRAM
	return s
}

// FillSizes returns a copy with the sizes that s lacks, which shares the rest with s. Values of s win: a maximum is at
// least the given current value, a current value is at most the given maximum, and a given topology determines
// MaximumCPUs.
func (s Spec) FillSizes(with Sizes) Spec {
	if s.hasTopology() && s.MaximumCPUs == 0 {
		s.MaximumCPUs = s.topologyProduct()
	}
	s.MaximumCPUs, s.CurrentCPUs = fillPair(s.MaximumCPUs, s.CurrentCPUs, with.MaximumCPUs, with.CurrentCPUs)
	s.MaximumRAM, s.CurrentRAM = fillPair(s.MaximumRAM, s.CurrentRAM, with.MaximumRAM, with.CurrentRAM)
	return s
}

// fillPair completes a maximum and a current value. 0 means absent.
func fillPair[T int | Bytes](maximum, current, withMaximum, withCurrent T) (T, T) {
	if maximum == 0 && withMaximum != 0 {
		maximum = max(withMaximum, current)
	}
	if current == 0 && withCurrent != 0 {
		current = withCurrent
		if maximum != 0 {
			current = min(current, maximum)
		}
	}
	return maximum, current
}
