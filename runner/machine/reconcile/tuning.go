package reconcile

import "cmp"

// tuneData changes the arguments of the node with the data of a disk in the same way as the stock types do. Without
// a wish it keeps them: whether an image can bypass the page cache is only known at the start of a VM.
func (d Drive) tuneData(node map[string]any) {
	if d.Cache != "" {
		node["cache"] = map[string]any{"direct": d.IsDirect(), "no-flush": d.Cache == "unsafe"}
		if !d.IsDirect() {
			delete(node, "aio") // native needs direct I/O
		}
	}
	if d.AIO != "" {
		node["aio"] = d.AIO
	}
	if d.AIO == "native" && d.Cache == "" {
		node["cache"] = map[string]any{"direct": true}
	}
	node["discard"] = cmp.Or(d.Discard, "unmap")
}

// tuneNode changes the arguments of the node that the guest's disk uses.
func (d Drive) tuneNode(node map[string]any) {
	node["discard"] = cmp.Or(d.Discard, "unmap")
	if d.DetectZeroes != "" {
		node["detect-zeroes"] = d.DetectZeroes
	}
}

// tuneDevice changes the arguments of the disk's device. The device has no thread, which could not be removed with it.
func (d Drive) tuneDevice(device map[string]any) {
	if d.Cache != "" {
		device["write-cache"] = "on"
		if d.Cache == "writethrough" || d.Cache == "directsync" {
			device["write-cache"] = "off"
		}
	}
	if d.LogicalBlockSize != 0 {
		device["logical_block_size"] = int64(d.LogicalBlockSize)
	}
	if size := cmp.Or(d.PhysicalBlockSize, d.LogicalBlockSize); size != 0 {
		device["physical_block_size"] = int64(size)
	}
}
