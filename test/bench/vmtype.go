package main

import (
	"fmt"
	"time"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// measureVMType evaluates the standard type in this process.
func measureVMType(b *bench) ([]result, error) {
	library, err := vmtypes.Open("")
	if err != nil {
		return nil, err
	}
	loaded, err := library.Load(b.ctx, "standard")
	if err != nil {
		return nil, err
	}
	cold := func() error {
		fresh, err := library.Load(b.ctx, "standard")
		if err != nil {
			return err
		}
		_, err = fresh.Launch(b.ctx, desktopSpec(1), typeHost())
		return err
	}
	const one = "warm: call it, 1 disk(s)"
	candidates := []candidate{{name: "cold: load it and call it", peer: one, once: averageMicros(100, cold)}}
	for _, disks := range []int{1, 10, 100, 1000} {
		spec, host := desktopSpec(disks), typeHost()
		name := fmt.Sprintf("warm: call it, %d disk(s)", disks)
		c := candidate{name: name, once: averageMicros(max(200/disks, 1), func() error {
			_, err := loaded.Launch(b.ctx, spec, host)
			return err
		})}
		if disks > 1 {
			c.peer = one
		}
		candidates = append(candidates, c)
	}
	all, err := b.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	list := withGoal(all.compareCandidates(candidates, "time", "µs"), candidates[0].name, 1000, 0)
	list = withGoal(list, candidates[1].name, 50, 0)
	// Linear: 900 more disks cost ten times as much as 90 more.
	last, before, first := list[4].Samples, list[3].Samples, list[2].Samples
	slope := result{Name: "a disk's cost from 100 to 1000, to that from 10 to 100", Unit: "x", Goal: 1.5}
	for i := range last {
		slope.Samples = append(slope.Samples, (last[i]-before[i])/900/((before[i]-first[i])/90))
	}
	return append(list, slope), nil
}

// averageMicros runs do n times and returns the average time.
func averageMicros(n int, do func() error) func() (map[string]float64, error) {
	return func() (map[string]float64, error) {
		begin := time.Now()
		for range n {
			if err := do(); err != nil {
				return nil, err
			}
		}
		return map[string]float64{"time": toMillis(time.Since(begin)) * 1000 / float64(n)}, nil
	}
}

// desktopSpec returns a VM with all usual devices, and n disks.
func desktopSpec(n int) vmspec.Spec {
	spec := vmspec.Spec{
		Name: "bench", UUID: "4b1c5d3e-0000-4000-8000-000000000001", UseTPM: true, Firmware: vmspec.FirmwareUEFI4M,
		MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 4 * vmspec.GiB, Accelerator: vmspec.AcceleratorTCG,
		Network: []vmspec.Network{{Type: vmspec.NetworkUser}}, Display: &vmspec.Display{Spice: &vmspec.Spice{}},
	}
	for i := range n {
		spec.Drives = append(spec.Drives, vmspec.Drive{File: fmt.Sprintf("/images/%d.img", i)})
	}
	return spec.WithDefaults()
}

func typeHost() vmtypes.Host {
	return vmtypes.Host{
		DataDir: "/data", RuntimeDir: "/run/vm", Arch: "x86_64", CloudInitImage: "/run/vm/cloud-init.img",
		Exists: func(string) bool { return true },
	}
}
