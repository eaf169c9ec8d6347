package check

import (
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// ofHostMemory are the properties of guest memory that depend on the memory of the host.
var ofHostMemory = []string{
	"prealloc", "prealloc-threads", "prealloc-context", "hugetlb", "hugetlbsize", "host-nodes", "policy",
}

// ramID is the id of the memory of a machine without a memory object.
const ramID = "vmrunner-check-ram"

// replaceMemory makes a memory object independent of the memory of the host.
func (r *replacement) replaceMemory(o *plan.Option) {
	var gone []string
	drop := func(keys ...string) {
		o.Properties = slices.DeleteFunc(o.Properties, func(p plan.Property) bool {
			key, _, _ := strings.Cut(p.Key, ".") // host-nodes.0
			is := slices.Contains(keys, key)
			if is {
				gone = append(gone, p.Key+"="+p.Value)
			}
			return is
		})
	}
	switch {
	case strings.HasPrefix(o.Value, "memory-backend-"):
		drop(ofHostMemory...)
		if path, ok := o.Get("mem-path"); ok {
			gone = append(gone, "mem-path="+path)
		}
		if r.unreserved {
			dropProperties(o, "reserve")
			o.Properties = append(o.Properties, plan.Property{Key: "reserve", Value: "off"})
			gone = append(gone, "the reservation of its memory")
		}
	case o.Value == "thread-context":
		drop("node-affinity", "cpu-affinity")
	}
	if len(gone) > 0 {
		r.replaced = append(r.replaced, "in -object "+o.Value+",id="+o.ID()+": "+strings.Join(gone, ", "))
	}
}

// addUnreserved adds an unreserved memory object to a machine without a memory object.
func (r *replacement) addUnreserved() {
	size, machine, index := "", -1, 0
	for i := range r.args {
		o := &r.args[i]
		_, hasMemory := o.Get("memory-backend")
		_, isNode := o.Get("memdev")
		switch {
		case hasMemory || o.Flag == "-numa" && isNode:
			return
		case o.Flag == "-machine":
			machine = i
		case o.Flag == "-m":
			if size, index = o.Value, r.from[i]; size == "" {
				size, _ = o.Get("size")
			}
		}
	}
	if machine < 0 || size == "" {
		return
	}
	if last := size[len(size)-1]; last >= '0' && last <= '9' {
		size += "M" // the unit of -m
	}
	at := &r.args[machine]
	at.Properties = append(slices.Clone(at.Properties), plan.Property{Key: "memory-backend", Value: ramID})
	r.args = append(r.args, plan.Option{
		Flag: "-object", Value: "memory-backend-ram", List: true,
		Properties: []plan.Property{
			{Key: "id", Value: ramID}, {Key: "size", Value: size}, {Key: "reserve", Value: "off"},
		},
	})
	r.from = append(r.from, index)
	r.replaced = append(r.replaced, "in -m "+size+": the reservation of its memory")
}
