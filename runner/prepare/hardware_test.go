package prepare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmtypes"
)

// fillSysfs creates a folder with files, and with links from a path to a target.
func fillSysfs(t *testing.T, files folder.Files, links map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
	}
	folder.Fill(t, root, files)
	for link, target := range links {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o700))
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	return root
}

// The places of CPUs are read for a host with two sockets, of which the first has threads, and a CPU that the VM can't
// use. A CPU without a description is a core of its own.
func TestProcessorsOfAHost(t *testing.T) {
	t.Parallel()
	files := folder.Files{}
	describe := func(cpus []int, socket int, thread, cache, siblings string) {
		for _, n := range cpus {
			of := "devices/system/cpu/cpu" + strconv.Itoa(n)
			files[of+"/topology/thread_siblings_list"] = thread + "\n"
			files[of+"/topology/physical_package_id"] = strconv.Itoa(socket) + "\n"
			files[of+"/topology/core_siblings_list"] = siblings + "\n"
			files[of+"/cache/index0/level"], files[of+"/cache/index0/shared_cpu_list"] = "1\n", thread+"\n"
			files[of+"/cache/index1/level"], files[of+"/cache/index1/shared_cpu_list"] = "3\n", cache+"\n"
			files[of+"/cache/index2/level"], files[of+"/cache/index2/shared_cpu_list"] = "2\n", thread+"\n"
		}
	}
	describe([]int{0, 4}, 0, "0,4", "0-1,4-5", "0-1,4-5")
	describe([]int{1, 5}, 0, "1,5", "0-1,4-5", "0-1,4-5")
	describe([]int{2, 3}, 1, "2-3", "2-3", "2-3")
	sysfs := fillSysfs(t, files, nil)
	topology := vmtypes.Topology{
		CPUs: []int{0, 1, 3, 5, 8},
		Nodes: []vmtypes.Node{
			{Number: 0, CPUs: []int{0, 1, 5}}, {Number: 7, CPUs: []int{3}}, {Number: 9, CPUs: []int{8}},
		},
	}
	require.Equal(t, []vmtypes.Processor{
		{Number: 0, Core: 0, Socket: 0, Cache: 0, Node: 0},
		{Number: 1, Core: 1, Socket: 0, Cache: 0, Node: 0},
		{Number: 3, Core: 3, Socket: 1, Cache: 3, Node: 7},
		{Number: 5, Core: 1, Socket: 0, Cache: 0, Node: 0},
		{Number: 8, Core: 8, Socket: 9, Cache: 8, Node: 9},
	}, readProcessors(sysfs, topology))
	require.Equal(t, topology.SeparateCores(), readProcessors(t.TempDir(), topology))
	require.Empty(t, readProcessors(sysfs, vmtypes.Topology{}))
}

func TestPCIDevicesOfAHost(t *testing.T) {
	t.Parallel()
	const devices = "bus/pci/devices/"
	sysfs := fillSysfs(t, folder.Files{
		devices + "0000:01:00.0/class":                  "0x030000\n",
		devices + "0000:01:00.0/vendor":                 "0x10de\n",
		devices + "0000:01:00.0/device":                 "0x2684\n",
		devices + "0000:01:00.0/numa_node":              "1\n",
		devices + "0000:00:02.0/numa_node":              "-1\n",
		"kernel/iommu_groups/13/devices/0000:01:00.0/x": "",
		"kernel/iommu_groups/13/devices/0000:00:01.0/x": "",
	}, map[string]string{
		devices + "0000:01:00.0/driver":      "../../../bus/pci/drivers/vfio-pci",
		devices + "0000:01:00.0/iommu_group": "../../../../kernel/iommu_groups/13",
		devices + "0000:02:00.0/virtfn0":     "../0000:02:10.0",
		devices + "0000:02:00.0/virtfn1":     "../0000:02:10.2",
		devices + "0000:02:10.0/physfn":      "../0000:02:00.0",
	})
	require.Equal(t, &vmtypes.PCIDevice{
		Address: "0000:01:00.0", ClassCode: "030000", VendorID: "10de", DeviceID: "2684", Driver: new("vfio-pci"),
		IOMMUGroup: new(13), GroupMembers: []string{"0000:00:01.0", "0000:01:00.0"}, Node: new(1),
	}, readPCI(sysfs, "0000:01:00.0"))
	require.Equal(t, &vmtypes.PCIDevice{Address: "0000:00:02.0"}, readPCI(sysfs, "0000:00:02.0"))
	require.Equal(t, []string{"0000:02:10.0", "0000:02:10.2"}, readPCI(sysfs, "0000:02:00.0").VirtualFunctions)
	require.Equal(t, "0000:02:00.0", *readPCI(sysfs, "0000:02:10.0").PhysicalFunction)
	require.Nil(t, readPCI(sysfs, "0000:03:00.0"))
}

// KVM decides which guests can be encrypted, and the CPU where the C-bit is.
func TestConfidentialGuestsOfAHost(t *testing.T) {
	t.Parallel()
	cpuid := func(leaf uint32) (eax, ebx uint32) {
		return map[uint32]uint32{0x80000000: 0x80000021}[leaf], map[uint32]uint32{0x8000001f: 51 | 5<<6 | 1<<12}[leaf]
	}
	amd := fillSysfs(t, folder.Files{
		"module/kvm_amd/parameters/sev": "Y\n", "module/kvm_amd/parameters/sev_es": "1\n",
		"module/kvm_amd/parameters/sev_snp": "N\n",
	}, nil)
	require.Equal(t, vmtypes.Confidential{SEV: &vmtypes.SEV{ES: true, CBitPos: 51, ReducedPhysBits: 1}},
		readConfidential(amd, cpuid))
	old := func(uint32) (eax, ebx uint32) { return 0x8000000a, 0 }
	require.Zero(t, readConfidential(amd, old), "the CPU has no such leaf")
	require.Zero(t, readConfidential(t.TempDir(), cpuid), "KVM's module is not loaded")
	intel := fillSysfs(t, folder.Files{"module/kvm_intel/parameters/tdx": "Y\n"}, nil)
	require.Equal(t, vmtypes.Confidential{TDX: true}, readConfidential(intel, old))
}

// The instruction CPUID reports the vendor that the kernel shows.
func TestCPUID(t *testing.T) {
	t.Parallel()
	_, ebx := readCPUID(0)
	if runtime.GOARCH != "amd64" {
		require.Zero(t, ebx)
		return
	}
	vendor := string([]byte{byte(ebx), byte(ebx >> 8), byte(ebx >> 16), byte(ebx >> 24)})
	info, err := os.ReadFile("/proc/cpuinfo")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(info)), " "), "vendor_id : "+vendor)
	last, _ := readCPUID(0x80000000)
	require.Greater(t, last, uint32(0x80000000))
}

// Facts about hardware are read only if they are asked for, and a runner that takes over the VM keeps them.
func TestHardwareIsThatOfTheStart(t *testing.T) {
	t.Parallel()
	var facts HostFacts
	host := facts.hostFor("/data", "/run")
	record, err := json.Marshal(facts)
	require.NoError(t, err)
	for _, key := range []string{"topology", "processors", "pci", "confidential"} {
		require.NotContains(t, string(record), key)
	}
	require.Len(t, host.Processors(), len(usableCPUs()))
	require.Nil(t, host.PCI("ffff:ff:1f.7"))
	_ = host.Confidential()

	facts.Processors[0].Socket, facts.Confidential.TDX = 777, true
	facts.PCI["0000:01:00.0"] = &vmtypes.PCIDevice{Address: "0000:01:00.0", Driver: new("vfio-pci")}
	record, err = json.Marshal(facts)
	require.NoError(t, err)
	next := VM{}
	require.NoError(t, json.Unmarshal(record, &next.Facts))
	keep := next.KeepHardware()
	now := ThisHost("/data", "/run")
	keep(&now)
	for _, host := range []vmtypes.Host{now, next.Facts.hostFor("/data", "/run")} {
		require.Equal(t, 777, host.Processors()[0].Socket)
		require.Equal(t, "vfio-pci", *host.PCI("0000:01:00.0").Driver)
		require.Nil(t, host.PCI("ffff:ff:1f.7"))
		require.True(t, host.Confidential().TDX)
	}
	require.NotContains(t, next.Facts.PCI, "0000:01:00.1")
	_ = now.PCI("0000:01:00.1")
	require.NotContains(t, next.Facts.PCI, "0000:01:00.1", "a comparison does not change the VM's facts")
}
