package policy

import "strings"

// A meaning says what the properties of an option can do on the host. Numbers and
// switches do nothing; texts of properties that are not named here are unknown.
type meaning struct {
	// harmless are properties whose texts do nothing on the host: names that
	// options have for each other, and words for the guest.
	harmless string
	// read and write name files.
	read, write string
	// any says that the texts of all other properties are harmless.
	any bool
}

// meaningOf returns the meaning of an option by its flag, or flag and backend.
func meaningOf(name string) (meaning, bool) {
	m, ok := map[string]meaning{
		"-accel kvm":                        {harmless: "thread kernel-irqchip"},
		"-accel tcg":                        {harmless: "thread"},
		"-action":                           {harmless: "panic watchdog reboot shutdown"},
		"-audiodev none":                    {harmless: "id"},
		"-audiodev spice":                   {harmless: "id"},
		"-boot":                             {harmless: "order once menu", read: "splash"},
		"-chardev file":                     {harmless: "id", write: "path logfile", read: "input-path"},
		"-chardev null":                     {harmless: "id"},
		"-chardev ringbuf":                  {harmless: "id"},
		"-chardev spiceport":                {harmless: "id name"},
		"-chardev spicevmc":                 {harmless: "id name"},
		"-chardev vc":                       {harmless: "id"},
		"-display egl-headless":             {read: "rendernode"},
		"-display none":                     {},
		"-fsdev local":                      {harmless: "id security_model fmode dmode", write: "path"},
		"-fw_cfg":                           {harmless: "name string", read: "file"},
		"-m":                                {},
		"-machine":                          {harmless: machineWords, read: "firmware kernel initrd dtb", write: "dumpdtb"},
		"-name":                             {harmless: "guest process"},
		"-netdev tap":                       {harmless: "id"},
		"-netdev vhost-user":                {harmless: "id chardev"},
		"-numa node":                        {harmless: "memdev cpus"},
		"-object authz-simple":              {harmless: "id identity"},
		"-object cryptodev-backend-builtin": {harmless: "id"},
		"-object filter-dump":               {harmless: "id netdev queue position", write: "file"},
		"-object iothread":                  {harmless: "id"},
		"-object memory-backend-file":       {harmless: memoryWords, write: "mem-path"},
		"-object memory-backend-memfd":      {harmless: memoryWords},
		"-object memory-backend-ram":        {harmless: memoryWords},
		"-object rng-builtin":               {harmless: "id"},
		"-object rng-random":                {harmless: "id", read: "filename"},
		"-object secret":                    {harmless: "id data format keyid iv", read: "file"},
		"-object throttle-group":            {harmless: "id"},
		"-object tls-creds-x509":            {harmless: "id endpoint priority passwordid", read: "dir"},
		"-rtc":                              {harmless: "base clock driftfix"},
		"-sandbox":                          {harmless: "obsolete elevateprivileges spawn resourcecontrol"},
		"-smbios":                           {any: true, read: "file path"},
		"-smp":                              {},
		"-spice":                            {harmless: spiceWords, read: "x509-dir x509-key-file x509-cert-file x509-cacert-file x509-dh-key-file rendernode"},
		"-tpmdev emulator":                  {harmless: "id chardev"},
		"-vnc":                              {harmless: "id share tls-creds password-secret audiodev"},
	}[name]
	return m, ok
}

const (
	machineWords = "type accel gic-version kernel-irqchip pflash0 pflash1 memory-backend audiodev append rtc pit pic memory-encryption confidential-guest-support"
	memoryWords  = "id policy host-nodes"
	spiceWords   = "addr password-secret streaming-video image-compression jpeg-wan-compression zlib-glz-wan-compression plaintext-channel tls-channel"
)

// rawMeaning says what the value of a flag can do that is given in one piece:
// "-kernel /boot/vmlinuz".
func rawMeaning(flag string) (effect, bool) {
	e, ok := map[string]effect{
		"-append": harmless, "-cpu": harmless, "-m": harmless, "-name": harmless, "-smp": harmless, "-uuid": harmless, "-vga": harmless, "-rtc": harmless,
		"-nodefaults": lonely, "-no-user-config": lonely, "-no-reboot": lonely, "-no-shutdown": lonely, "-enable-kvm": lonely,
		"-kernel": reads, "-initrd": reads, "-bios": reads, "-dtb": reads,
	}[flag]
	return e, ok
}

// An effect is what a text can do on the host.
type effect int

// The effects.
const (
	unknown  effect = iota
	harmless        // nothing
	lonely          // nothing, and there must be none
	reads           // it names a file that is read
	writes          // it names a file that is written
)

// of returns what the text of a property can do.
func (m meaning) of(key string) effect {
	switch {
	case listed(m.read, key):
		return reads
	case listed(m.write, key):
		return writes
	case m.any || listed(m.harmless, key):
		return harmless
	}
	return unknown
}

// listed tells whether a word is in a list of words.
func listed(list, word string) bool {
	for known := range strings.FieldsSeq(list) {
		if known == word {
			return true
		}
	}
	return false
}

// deviceMeaning is that of the properties that devices have; those of files in
// any device.
func deviceMeaning() meaning {
	return meaning{
		harmless: "id bus masterbus drive netdev mac chardev name serial model vendor product rng memdev iothread cryptodev tpmdev audiodev fsdev mount_tag " +
			"werror rerror addr ver wwn disable-legacy disable-modern rombar append rtc type",
		read:  "romfile furbank frudatafile sdrfile kernel initrd",
		write: "file filename path evdev rootdir",
	}
}

// stockWords are what "stock" stands for in a list of a rule.
func stockWords(list string) []string {
	return strings.Fields(map[string]string{
		"flags": "-accel -action -append -audiodev -blockdev -boot -chardev -cpu -device -display -drive -global -initrd -kernel -m -machine " +
			"-name -netdev -no-user-config -nodefaults -object -rtc -sandbox -serial -smp -spice -tpmdev -uuid -vnc",
		"devices": "AC97 ICH9-LPC PIIX4_PM VGA cfi.pflash01 cirrus-vga e1000 e1000e hda-duplex i6300esb ich9-intel-hda ich9-usb-ehci1 ich9-usb-uhci1 ich9-usb-uhci2 " +
			"ich9-usb-uhci3 ide-cd ide-hd intel-iommu isa-serial kvm-pit mc146818rtc pcie-root-port pcnet pvpanic pvpanic-pci qemu-xhci qxl-vga rtl8139 scsi-cd " +
			"scsi-hd tpm-crb tpm-tis tpm-tis-device usb-kbd usb-net usb-redir usb-tablet virtio-balloon-* virtio-blk-* virtio-gpu-* virtio-mem-pci " +
			"virtio-net-* virtio-rng-* virtio-scsi-* virtio-serial-* virtio-vga virtserialport",
		"read":     "/usr/share/OVMF/** /usr/share/AAVMF/** /usr/share/edk2/** /usr/share/edk2-ovmf/** /usr/share/qemu/** /usr/local/share/qemu/** /dev/urandom",
		"programs": "/usr/bin/qemu-system-* /usr/local/bin/qemu-system-* /usr/libexec/qemu-kvm",
		"helpers":  "/usr/bin/swtpm /usr/local/bin/swtpm",
		"networks": "masquerade user",
		"listen":   "127.0.0.1:* [::1]:*",
		"options":  "diskBus localTime networkCard panic pcie secureBoot tpm usb video virtio virtioDrivers watchdog",
	}[list])
}

// stockBackends are what "stock" stands for in the list of backends, which have
// two words.
func stockBackends() []string {
	return []string{
		"accel kvm", "accel tcg", "audiodev none", "audiodev spice", "blockdev file", "blockdev host_device", "blockdev qcow2", "blockdev raw", "chardev null",
		"chardev socket", "chardev spicevmc", "display none", "netdev tap", "netdev user", "object iothread", "object memory-backend-memfd",
		"object memory-backend-ram", "object rng-builtin", "object rng-random", "object throttle-group", "tpmdev emulator",
	}
}
