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
	"vmop/manager/vm/class"
	"vmop/runner/config"
	"vmop/vmspec"
)

// Given contains the objects that the VM's definition only names.
type Given struct {
	// Lease is the address lease of the guest's first tap; nil without a lease.
	Lease *addresses.Lease
	// Unfiltered are the bridges where guests may use any hardware address.
	Unfiltered []string
	// Devices are the disks, as far as they are known.
	Devices []Device
	// Drives are the drives of disks attached while the guest runs.
	Drives Drives
}

// Config returns the runner's configuration file. An error means that a value is invalid although the API server
// accepted it, or that the file is too large.
func Config(vm *v1.VirtualMachine, given Given) ([]byte, error) {
	spec, err := machineSpec(vm, given.Devices)
	if err != nil {
		return nil, err
	}
	for _, a := range given.Drives.All {
		spec.Drives = append(spec.Drives, a.driveSpec())
	}
	lease := given.Lease
	if tap := vm.Spec.VM.FirstTap(); lease != nil && tap >= 0 {
		spec.Network[tap].Lease, spec.Network[tap].Filter = &lease.Lease, &lease.Filter
	}
	filterTaps(spec.Network, given.Unfiltered)
	seed, err := cloudInitConfig(vm.Spec.CloudInit)
	if err != nil {
		return nil, err
	}
	var answers *config.Sysprep
	if p := vm.Spec.Provisioning; p != nil {
		if seed, answers, err = provisioningConfig(p); err != nil {
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
		NBDCertificates:    diskTLSDir,
		DrivesRevision:     given.Drives.Revision,
		VM:                 spec,
	}
	if spec.Options != nil { // options can name files
		c.ImageRepository = ImageRepositoryDir
	}
	text, err := c.Format()
	if err == nil && len(text) > largestConfig {
		return nil, tooLarge(vm, len(text))
	}
	return text, err
}

// largestConfig is the capacity of a ConfigMap, in bytes, minus a reserve for logging.properties.
const largestConfig = 1<<20 - 16<<10

// tooLarge returns an error that names the field that makes the runner's configuration too large.
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

// resetCounter returns 0 if the counter is unset: a runner counts from the first number that it sees, and a user who
// sets 1 afterward wants a reset.
func resetCounter(vm *v1.VirtualMachine) *int64 {
	if vm.Spec.ResetCounter == nil {
		return new(int64(0))
	}
	return vm.Spec.ResetCounter
}

// machineSpec translates spec.vm and spec.blockDeviceRefs.
func machineSpec(vm *v1.VirtualMachine, known []Device) (vmspec.Spec, error) {
	m := &vm.Spec.VM
	s, err := class.SizeOf(vm)
	if err != nil {
		return s, err
	}
	s.Name, s.UUID = vm.Name, m.MachineUUID
	s.Accelerator, s.CPUModel = vmspec.Accelerator(m.Accelerator), m.CPUModel
	s.Firmware, s.BootMenu, s.UseTPM = vmspec.Firmware(m.Firmware), isTrue(m.BootMenu), isTrue(m.UseTPM)
	s.RTCBase, s.RTCClock = m.RTCBase, m.RTCClock
	s.PowerdownTimeout, s.Display = secondsOf(m.PowerdownTimeout), displaySpec(m.Display)
	if s.Kernel, err = kernelSpec(m.Kernel); err != nil {
		return s, err
	}
	if s.Network, err = networkSpecs(m.Networks); err != nil {
		return s, err
	}
	if s.Drives, err = driveSpecs(m.Disks, namedDevices(vm, known)); err != nil {
		return s, err
	}
	if m.Options != nil && m.Options.Raw != nil {
		if err := kubejson.Unmarshal(m.Options.Raw, &s.Options); err != nil {
			return s, fmt.Errorf("read spec.vm.options: %w", err)
		}
	}
	return s, nil
}

func kernelSpec(of *v1.Kernel) (k *vmspec.Kernel, err error) {
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

func isTrue(b *bool) bool { return b != nil && *b }

func secondsOf(n *int32) *vmspec.Seconds {
	if n == nil {
		return nil
	}
	return new(vmspec.Seconds(*n))
}

// networkSpecs returns an empty list instead of nil for a VM without a network. passt is not used for the networks of a
// container: see docs/decisions/0072-no-passt-in-pods.md.
func networkSpecs(of []v1.Network) ([]vmspec.Network, error) {
	all := make([]vmspec.Network, 0, len(of))
	// A tap requires the node's network, where the pod's address is the node's address.
	open := slices.ContainsFunc(of, func(n v1.Network) bool { return n.Tap != nil })
	for i, n := range of {
		switch {
		case n.Tap != nil:
			t := n.Tap
			all = append(all, vmspec.Network{Type: vmspec.NetworkTap, Device: t.Device, Bridge: t.Bridge, MAC: t.MAC})
		case n.User != nil:
			u := n.User
			all = append(all, vmspec.Network{
				Type: vmspec.NetworkUser, Device: u.Device, Net: u.Net, Ports: portForwards(u.Ports),
				HostLoopback: isTrue(u.HostLoopback),
			})
		case n.Masquerade != nil:
			m := vmspec.Network{Type: vmspec.NetworkMasquerade, Device: n.Masquerade.Device, Net: n.Masquerade.Net}
			if !open {
				open, m.AllPorts = true, &vmspec.AllPorts{Keep: []int{controlPort}}
			}
			all = append(all, m)
		default:
			return nil, fmt.Errorf("spec.vm.networks[%d]: set exactly one of tap, user and masquerade", i)
		}
		all[i].Link = vmspec.LinkState(n.Link)
	}
	return all, nil
}

// filterTaps restricts guests without a lease to the hardware address of their card. For guests with a lease, the
// address range decides.
func filterTaps(networks []vmspec.Network, unfiltered []string) {
	for i := range networks {
		n := &networks[i]
		if n.Type == vmspec.NetworkTap && n.Lease == nil && !isListed(unfiltered, bridgeOf(n.Bridge)) {
			n.Filter = new(true)
		}
	}
}

// portForwards returns the ports of a user network, on all addresses of the pod.
func portForwards(ports []v1.Port) []vmspec.PortForward {
	var all []vmspec.PortForward
	for _, p := range ports {
		all = append(all, vmspec.PortForward{
			Protocol: strings.ToLower(string(p.Protocol)), Address: anyAddress, Host: int(p.Port), Guest: int(p.Guest),
		})
	}
	return all
}

// driveSpecs returns the drives of vm.disks, followed by the drives of the remaining devices. The first devices belong
// to vm.disks.
func driveSpecs(disks []v1.Disk, devices []Device) ([]vmspec.Drive, error) {
	all := make([]vmspec.Drive, 0, len(disks))
	for i, d := range disks {
		var drive vmspec.Drive
		switch {
		case d.CDROM != nil:
			file, err := mediumPath(fmt.Sprintf("spec.vm.disks[%d].cdrom.image", i), d.CDROM.Image)
			if err != nil {
				return nil, err
			}
			drive = vmspec.Drive{Type: vmspec.DriveIDECD, File: file}
		case d.VirtualDisk != nil:
			var device Device
			if device, devices = devices[0], devices[1:]; device.Exported {
				continue
			}
			drive = device.driveSpec()
		case d.VolumeClaimTemplate == nil:
			return nil, fmt.Errorf("spec.vm.disks[%d]: set exactly one of volumeClaimTemplate, cdrom and virtualDisk", i)
		case onFileSystem(d.VolumeClaimTemplate):
			drive.File = path.Join(diskDir, diskName(i, d), disk.FileName)
			// The runner creates the image, and subtracts what the file system itself needs. If the claim requests
			// no size, the image must exist.
			requested := d.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage]
			drive.Size = vmspec.Bytes(requested.Value()).WholeMiB()
		default:
			drive.Resource = "/dev/" + diskName(i, d)
		}
		if d.Bootindex != nil {
			drive.Bootindex = new(int(*d.Bootindex))
		}
		tuneDrive(&drive, d.DiskTuning)
		all = append(all, drive)
	}
	for _, d := range devices {
		if !d.Exported {
			all = append(all, d.driveSpec())
		}
	}
	return all, nil
}

// tuneDrive applies how QEMU reads and writes a disk.
func tuneDrive(drive *vmspec.Drive, t v1.DiskTuning) {
	drive.Cache, drive.AIO, drive.Discard, drive.DetectZeroes = t.Cache, t.AIO, t.Discard, t.DetectZeroes
	if l := t.Limits; l != nil {
		bytes := func(q *resource.Quantity) vmspec.Bytes {
			if q == nil {
				return 0
			}
			return vmspec.Bytes(q.Value())
		}
		drive.Limits = &vmspec.DiskLimits{
			IOPS: int(l.IOPS), IOPSRead: int(l.IOPSRead), IOPSWrite: int(l.IOPSWrite),
			Bytes: bytes(l.Bytes), BytesRead: bytes(l.BytesRead), BytesWrite: bytes(l.BytesWrite),
		}
	}
}

// diskName returns the name of a disk in the pod, which is also a part of its claim's name. It is the template's
// name, or the position in the list of disks.
func diskName(i int, d v1.Disk) string {
	if name := d.VolumeClaimTemplate.Metadata.Name; name != "" {
		return name + "-disk"
	}
	return "disk-" + strconv.Itoa(i)
}

// mediumPath returns the location of a CD's image. "" means no medium, a URL is unchanged, and any other value is a
// file in the image repository.
func mediumPath(key, image string) (string, error) {
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
		return "", fmt.Errorf("%s is %q: CDs can't be read over %s: use a file in the image repository, such as live.iso, "+
			"or a URL that begins with http:// or https://", key, image, scheme)
	}
	return inRepository(key, image)
}

// inRepository resolves a path in the image repository. Users must not access other files of the pod: among them are
// the runner's token and, in a privileged pod, the node's disks.
func inRepository(key, file string) (string, error) {
	full, inside := vmspec.Inside(ImageRepositoryDir, file)
	if !inside {
		return "", fmt.Errorf("%s is %q: use a file in the image repository, such as live.iso or %s/live.iso",
			key, file, ImageRepositoryDir)
	}
	return full, nil
}

func displaySpec(of *v1.Display) *vmspec.Display {
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
		if v.Port != nil { // like SPICE, reachable from outside the pod
			d.VNC.Port, d.VNC.Address = int(*v.Port), anyAddress
		}
	}
	return d
}

// cloudInitConfig translates the data for cloud-init. The runner adds local-hostname and instance-id, which changes
// exactly when the data changes.
func cloudInitConfig(of *v1.CloudInit) (*cloudinit.Config, error) {
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
	user, userErr := documentText("spec.cloudInit.userData", of.UserData)
	vendor, vendorErr := documentText("spec.cloudInit.vendorData", of.VendorData)
	if err := errors.Join(userErr, vendorErr); err != nil {
		return nil, err
	}
	var network []byte
	if of.NetworkConfig != nil {
		network = of.NetworkConfig.Raw
	}
	var userFile, networkFile string
	if of.UserDataFrom != nil { // if userData is also set, the VM isn't started; see decide.Data
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

// provisioningConfig translates the provisioning data to data for cloud-init, or to answer files. The data in a Secret
// is mounted as files.
func provisioningConfig(of *v1.Provisioning) (*cloudinit.Config, *config.Sysprep, error) {
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

// documentText returns a mapping or a text, a combination that the CRD's types can't express.
func documentText(key string, of *runtime.RawExtension) ([]byte, error) {
	if of == nil || len(of.Raw) == 0 {
		return nil, nil
	}
	if first := of.Raw[0]; first != '{' && first != '"' {
		return nil, fmt.Errorf("%s: must be a mapping, or text such as a script", key)
	}
	return of.Raw, nil
}
