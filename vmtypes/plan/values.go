package plan

import (
	"math"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// checkValues checks the texts of properties that have a known form.
func (c *checker) checkValues(o *Option) {
	backend := o.Backend()
	if known := qemuopt.Flag(o.Flag); known != nil && known.Implied != "" && o.Value != "" {
		if reason := qemuopt.RuleOf(o.Flag, backend, known.Implied).Accepts(o.Value); reason != "" {
			c.addFault(o.Origin, "%s %s", shortName(o), reason)
		}
	}
	for _, p := range o.Properties {
		if p.Descriptor != "" {
			continue
		}
		if reason := qemuopt.RuleOf(o.Flag, backend, p.Key).Accepts(p.Value); reason != "" {
			c.addFault(o.Origin, "%s: %s=%s %s", shortName(o), p.Key, p.Value, reason)
		}
	}
	c.checkTopology(o)
}

// checkMemory checks that the memory of the machine is a size, and the size of its backend.
func (c *checker) checkMemory(options []Option) {
	var machine, memory *Option
	backends := map[string]*Option{}
	for i := range options {
		switch o := &options[i]; {
		case o.Flag == "-machine":
			machine = o
		case o.Flag == "-m":
			memory = o
		case o.Flag == "-object" && strings.HasPrefix(o.Backend(), "memory-backend-"):
			backends[o.ID()] = o
		}
	}
	if memory == nil {
		return
	}
	text, _ := memory.lastValue("size")
	if memory.Value != "" {
		text = memory.Value
	}
	size, ok := qemuopt.Bytes(text)
	if !ok {
		return // checkValues reports it
	}
	if last := text[len(text)-1]; last >= '0' && last <= '9' { // the unit is MiB
		if size > math.MaxUint64>>20 {
			c.addFault(memory.Origin, "%s: %s MiB is too much; give the size a suffix: 4G", memory.Flag, text)
			return
		}
		size <<= 20
	}
	if most, given := memory.lastValue("maxmem"); given {
		if limit, ok := qemuopt.Bytes(most); ok && limit < size {
			c.addFault(memory.Origin, "%s: maxmem=%s is less than the size, %s", memory.Flag, most, text)
		}
	}
	if machine == nil {
		return
	}
	id, _ := machine.lastValue("memory-backend")
	backend := backends[id]
	if backend == nil {
		return
	}
	given, _ := backend.lastValue("size")
	const granularity = 8 << 10 // QEMU rounds the machine's memory up
	other, ok := qemuopt.Bytes(given)
	if ok && size > 0 && other != (size+granularity-1)&^(granularity-1) {
		c.addFault(backend.Origin, "%s: size=%s, but the machine's memory is %d bytes by %s; give both the same size",
			shortName(backend), given, size, nameWithPlace(memory))
	}
}

// checkTopology checks that the CPUs at the start are not more than the maximum.
func (c *checker) checkTopology(o *Option) {
	if o.Flag != "-smp" {
		return
	}
	text, _ := o.lastValue("cpus")
	if o.Value != "" {
		text = o.Value
	}
	most, given := o.lastValue("maxcpus")
	cpus, ok := qemuopt.Number(text)
	limit, isNumber := qemuopt.Number(most)
	if given && ok && isNumber && limit > 0 && cpus > limit {
		c.addFault(o.Origin, "-smp: cpus=%s is more than maxcpus=%s", text, most)
	}
}
