package objects

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubejson "k8s.io/apimachinery/pkg/util/json"

	v1 "vmop/api/v1"
	"vmop/cloudinit"
	"vmop/manager/addresses"
	"vmop/manager/disk"
	"vmop/runner/config"
	"vmop/vmspec"
)

// Given is what a VM has that its definition only names.
type Given struct {
	// Lease is what the guest's first tap gets; nil: nothing.
	Lease *addresses.Lease
	// Unfiltered are the bridges whose guests may use any hardware address.
	Unfiltered []string
	// Devices are the disks, as far as they are known.
	Devices []Device
	// Drives are those of disks that are attached while the guest runs.
	Drives Drives
}

// Config returns the runner's configuration file. An error means a value that the API server
// should not have accepted, or a file that is too large.
func Config(vm *v1.VirtualMachine, given Given) ([]byte, error) {
	spec, err := machine(vm, given.Devices)
	if err != nil {
		return nil, err
	}
	for _, a := range given.Drives.All {
		spec.Drives = append(spec.Drives, a.drive())
	}
	lease := given.Lease
	if tap := vm.Spec.VM.FirstTap(); lease != nil && tap >= 0 {
		spec.Network[tap].Lease, spec.Network[tap].Filter = &lease.Lease, &lease.Filter
	}
	filterTaps(spec.Network, given.Unfiltered)
	seed, err := cloudInit(vm.Spec.CloudInit)
	if err != nil {
		return nil, err
	}
	var answers *config.Sysprep
	if p := vm.Spec.Provisioning; p != nil {
		if seed, answers, err = provisioning(p); err != nil {
			return nil, err
		}
	}
	c := config.Config{
		DataDir:            DataDir,
		RuntimeDir:         path.Join(RuntimeDir, vm.Name),
		Namespace:          vm.Namespace,
		Generation:         vm.Generation,
		Resource:           string(vm.UID),
		CloudInit:          seed,
		Provisioned:        seed != nil && vm.Spec.Provisioning != nil,
		Sysprep:            answers,
		GuestShutdownStops: vm.Spec.GuestStops(),
		CrashStops:         vm.Spec.CrashStops(),
		ResetCounter:       resetCounter(vm),
		VMType:             vm.Spec.VMType.Source,
		UpdateVMType:       vm.Spec.VMType.Update == nil || *vm.Spec.VMType.Update,
		NBDCertificates:    DiskTLSDir,
		DrivesRevision:     given.Drives.Revision,
		VM:                 spec,
	}
	if spec.Options != nil { // which may name files
		c.ImageRepository = ImageRepositoryDir
	}
	text, err := c.Format()
	if err == nil && len(text) > largestConfig {
		return nil, tooLarge(vm, len(text))
	}
	return text, err
}

// largestConfig is what a ConfigMap holds, in bytes, less a reserve for
// logging.properties.
const largestConfig = 1<<20 - 16<<10

// tooLarge says which part of a VM makes the runner's configuration so large.
func tooLarge(vm *v1.VirtualMachine, size int) error {
	field, most := "spec.vm", 0
	for name, of := range map[string]any{
		"spec.cloudInit": vm.Spec.CloudInit, "spec.provisioning": vm.Spec.Provisioning,
		"spec.vm.options": vm.Spec.VM.Options,
	} {
		if text, err := json.Marshal(of); err == nil && len(text) > most && len(text) > size/2 {
			field, most = name, len(text)
		}
	}
	return fmt.Errorf("%s is too large: the runner's configuration has %d KiB, and a ConfigMap holds %d; let the guest load the rest",
		field, size>>10, largestConfig>>10)
}

// resetCounter is 0 where there is none: a runner counts from the first number it sees,
// and a user who then sets 1 wants a reset.
func resetCounter(vm *v1.VirtualMachine) *int64 {
	if vm.Spec.ResetCounter == nil {
		return new(int64(0))
	}
	return vm.Spec.ResetCounter
}

// machine translates spec.vm, and spec.blockDeviceRefs.
func machine(vm *v1.VirtualMachine, known []Device) (vmspec.Spec, error) {
	m := &vm.Spec.VM
	s, err := size(vm)
	if err != nil {
		return s, err
	}
	s.Name, s.UUID = vm.Name, m.MachineUUID
	s.Accelerator, s.CPUModel = vmspec.Accelerator(m.Accelerator), m.CPUModel
	s.Firmware, s.BootMenu, s.UseTPM = vmspec.Firmware(m.Firmware), isTrue(m.BootMenu), isTrue(m.UseTPM)
	s.RTCBase, s.RTCClock = m.RTCBase, m.RTCClock
	s.PowerdownTimeout, s.Display = seconds(m.PowerdownTimeout), display(m.Display)
	if s.Kernel, err = kernel(m.Kernel); err != nil {
		return s, err
	}
	if s.Network, err = networks(m.Networks); err != nil {
		return s, err
	}
	if s.Drives, err = drives(m.Disks, devices(vm, known)); err != nil {
		return s, err
	}
	if m.Options != nil && m.Options.Raw != nil {
		if err := kubejson.Unmarshal(m.Options.Raw, &s.Options); err != nil {
			return s, fmt.Errorf("read spec.vm.options: %w", err)
		}
	}
	return s, nil
}

func kernel(of *v1.Kernel) (k *vmspec.Kernel, err error) {
	if of == nil {
		return nil, nil
	}
	k = &vmspec.Kernel{CommandLine: of.CommandLine}
	if k.Image, err = inRepository("spec.vm.kernel.image", of.Image); err != nil || of.Initrd == "" {
		return k, err
	}
	if fault := vmspec.InitrdFault(of.Initrd); fault != "" {
		return k, fmt.Errorf("spec.vm.kernel.initrd is %q: it %s; rename the file", of.Initrd, fault)
	}
	k.Initrd, err = inRepository("spec.vm.kernel.initrd", of.Initrd)
	return k, err
}

// wholeMiB rounds down, as QEMU counts memory in MiB and "1G" is no whole number
// of them.
func wholeMiB(q resource.Quantity) vmspec.Bytes {
	return vmspec.Bytes(q.Value()) / vmspec.MiB * vmspec.MiB
}

// memory translates a size of memory.
func memory(key string, q *resource.Quantity) (vmspec.Bytes, error) {
	if q == nil {
		return 0, nil
	}
	size := wholeMiB(*q)
	if size <= 0 {
		return 0, fmt.Errorf("spec.vm.%s is %s: want at least 1Mi", key, q)
	}
	return size, nil
}

func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

func isTrue(b *bool) bool { return b != nil && *b }

func seconds(n *int32) *vmspec.Seconds {
	if n == nil {
		return nil
	}
	return new(vmspec.Seconds(*n))
}

// networks returns an empty list, not none, for a VM without a network. Of a container's
// networks passt is none: see docs/decisions/0072-no-passt-in-pods.md.
func networks(of []v1.Network) ([]vmspec.Network, error) {
	all := make([]vmspec.Network, 0, len(of))
	// In a node's network, where a tap is, the pod's address is the node's.
	open := slices.ContainsFunc(of, func(n v1.Network) bool { return n.Tap != nil })
	for i, n := range of {
		switch {
		case n.Tap != nil:
			t := n.Tap
			all = append(all, vmspec.Network{Type: vmspec.NetworkTap, Device: t.Device, Bridge: t.Bridge, MAC: t.MAC})
		case n.User != nil:
			u := n.User
			all = append(all, vmspec.Network{
				Type: vmspec.NetworkUser, Device: u.Device, Net: u.Net, Ports: forwards(u.Ports),
				HostLoopback: isTrue(u.HostLoopback),
			})
		case n.Masquerade != nil:
			m := vmspec.Network{Type: vmspec.NetworkMasquerade, Device: n.Masquerade.Device, Net: n.Masquerade.Net}
			if !open {
				open, m.AllPorts = true, &vmspec.AllPorts{Keep: []int{ControlPort}}
			}
			all = append(all, m)
		default:
			return nil, fmt.Errorf("spec.vm.networks[%d]: want one of tap, user and masquerade", i)
		}
	}
	return all, nil
}

// filterTaps keeps guests without a lease to the hardware address of their card. A range of addresses decides for
// guests with one.
func filterTaps(networks []vmspec.Network, unfiltered []string) {
	for i := range networks {
		n := &networks[i]
		if n.Type == vmspec.NetworkTap && n.Lease == nil && !listed(unfiltered, bridgeOf(n.Bridge)) {
			n.Filter = new(true)
		}
	}
}

// forwards are the ports of a user network, at every address of the pod.
func forwards(ports []v1.Port) []vmspec.PortForward {
	var all []vmspec.PortForward
	for _, p := range ports {
		all = append(all, vmspec.PortForward{
			Protocol: strings.ToLower(string(p.Protocol)), Address: anyAddress, Host: int(p.Port), Guest: int(p.Guest),
		})
	}
	return all
}

// drives returns those of vm.disks, to which the first of the devices belong, and then the rest
// of the devices.
func drives(disks []v1.Disk, devices []Device) ([]vmspec.Drive, error) {
	all := make([]vmspec.Drive, 0, len(disks))
	for i, d := range disks {
		var drive vmspec.Drive
		switch {
		case d.CDROM != nil:
			file, err := medium(fmt.Sprintf("spec.vm.disks[%d].cdrom.image", i), d.CDROM.Image)
			if err != nil {
				return nil, err
			}
			drive = vmspec.Drive{Type: vmspec.DriveIDECD, File: file}
		case d.VirtualDisk != nil:
			var device Device
			if device, devices = devices[0], devices[1:]; device.Exported {
				continue
			}
			drive = device.drive()
		case d.VolumeClaimTemplate == nil:
			return nil, fmt.Errorf("spec.vm.disks[%d]: want one of volumeClaimTemplate, cdrom and virtualDisk", i)
		case onFileSystem(d.VolumeClaimTemplate):
			drive.File = path.Join(DiskDir, diskName(i, d), disk.FileName)
			// The runner makes the image, and leaves out what the file system takes
			// itself. Where the claim asks for nothing, the image must be there.
			drive.Size = wholeMiB(d.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage])
		default:
			drive.Resource = "/dev/" + diskName(i, d)
		}
		if d.Bootindex != nil {
			drive.Bootindex = new(int(*d.Bootindex))
		}
		all = append(all, drive)
	}
	for _, d := range devices {
		if !d.Exported {
			all = append(all, d.drive())
		}
	}
	return all, nil
}

// diskName is the name of a disk in the pod and a part of its claim's: that of the
// template, or the place in the list of disks.
func diskName(i int, d v1.Disk) string {
	if name := d.VolumeClaimTemplate.Metadata.Name; name != "" {
		return name + "-disk"
	}
	return "disk-" + strconv.Itoa(i)
}

// medium returns where a CD's image is: "" is no medium, a URL stays what it is,
// and everything else is a file in the image repository.
func medium(key, image string) (string, error) {
	if image == "" {
		return "", nil
	}
	if rest, isFile := strings.CutPrefix(image, "file:"); isFile {
		if at, err := url.Parse(image); err == nil && at.Path != "" {
			rest = at.Path
		}
		return inRepository(key, rest)
	}
	if isURL(image) {
		return image, nil
	}
	if scheme, _, is := strings.Cut(image, "://"); is {
		return "", fmt.Errorf("%s is %q: CDs are not read by %s: want a file in the image repository, such as live.iso, "+
			"or a URL that begins with http:// or https://", key, image, scheme)
	}
	return inRepository(key, image)
}

// inRepository resolves a path in the image repository. Other files of the pod are
// not the user's: the runner's token is one, and where the pod is privileged the
// node's disks are.
func inRepository(key, file string) (string, error) {
	full, inside := vmspec.Inside(ImageRepositoryDir, file)
	if !inside {
		return "", fmt.Errorf("%s is %q: want a file in the image repository, such as live.iso or %s/live.iso",
			key, file, ImageRepositoryDir)
	}
	return full, nil
}

func display(of *v1.Display) *vmspec.Display {
	if of == nil {
		return nil
	}
	d := &vmspec.Display{Outputs: int(of.Outputs), LoggedInUser: of.LoggedInUser}
	if s := of.Spice; s != nil {
		d.WithoutPassword = s.GenerateSecret != nil && !*s.GenerateSecret
		d.Spice = &vmspec.Spice{Port: int(s.Port), StreamingVideo: s.StreamingVideo}
		if s.USBRedirects != nil {
			d.Spice.USBRedirects = new(int(*s.USBRedirects))
		}
	}
	if v := of.VNC; v != nil {
		d.VNC = &vmspec.VNC{}
		if v.Port != nil { // reachable from outside of the pod, as SPICE is
			d.VNC.Port, d.VNC.Address = int(*v.Port), anyAddress
		}
	}
	return d
}

// cloudInit passes the data on. The runner adds instance-id, which changes when the
// data do and at no other time, and local-hostname.
func cloudInit(of *v1.CloudInit) (*cloudinit.Config, error) {
	if of == nil {
		return nil, nil
	}
	var meta []byte
	if of.MetaData != nil {
		var err error
		if meta, err = json.Marshal(of.MetaData); err != nil {
			return nil, fmt.Errorf("write spec.cloudInit.metaData: %w", err)
		}
	}
	user, userErr := document("spec.cloudInit.userData", of.UserData)
	vendor, vendorErr := document("spec.cloudInit.vendorData", of.VendorData)
	if err := errors.Join(userErr, vendorErr); err != nil {
		return nil, err
	}
	var network []byte
	if of.NetworkConfig != nil {
		network = of.NetworkConfig.Raw
	}
	var userFile, networkFile string
	if of.UserDataFrom != nil { // with userData as well the VM isn't started, see decide.Data
		user, userFile = nil, userDataFile
	}
	if of.NetworkDataFrom != nil {
		network, networkFile = nil, networkConfigFile
	}
	c, err := cloudinit.FromJSON(meta, user, network, vendor)
	if err != nil {
		return nil, err
	}
	c.UserDataFile, c.NetworkConfigFile = userFile, networkFile
	return c, nil
}

// provisioning returns what the runner is to make of it: data for cloud-init, or answer
// files. What is in a Secret are files.
func provisioning(of *v1.Provisioning) (*cloudinit.Config, *config.Sysprep, error) {
	switch {
	case of.SysprepRef != nil:
		return nil, &config.Sysprep{Directory: sysprepDirectory}, nil
	case of.UserDataRef != nil:
		return &cloudinit.Config{UserDataFile: userDataFile}, nil, nil
	case of.UserData == nil:
		return nil, nil, nil
	}
	text, err := json.Marshal(*of.UserData)
	if err != nil {
		return nil, nil, fmt.Errorf("write spec.provisioning.userData: %w", err)
	}
	c, err := cloudinit.FromJSON(nil, text, nil, nil)
	return c, nil, err
}

// document returns a mapping or a text, which no type of a resource's definition means.
func document(key string, of *runtime.RawExtension) ([]byte, error) {
	if of == nil || len(of.Raw) == 0 {
		return nil, nil
	}
	if first := of.Raw[0]; first != '{' && first != '"' {
		return nil, fmt.Errorf("%s: want a mapping, or a text such as a script", key)
	}
	return of.Raw, nil
}
