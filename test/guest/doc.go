// Package guest makes the operating systems that tests boot in real virtual
// machines.
//
// The tiny guest is a distribution's own kernel and an initramfs with busybox,
// about 3 MB. It is up five seconds of processor time after QEMU started, even
// without KVM, and tells on its serial console what it found, one subject a
// line:
//
//	TINY 0.61 init kernel=6.1.0-56-cloud-amd64
//	TINY 1.13 nocloud device=/dev/vda files=meta-data,user-data instance-id=i-1 hostname=one
//	USERDATA: #cloud-config
//	TINY 1.25 tpm version=2 code=0x00000000 clock=104 resets=1 restarts=0 pcr0=…
//	TINY 1.31 cpus count=2 online=0-1 present=0-1 possible=0-3
//	TINY 1.40 READY
//
// After that it reports what is plugged in and out, powers off when the ACPI
// power button is pressed, and answers commands, one a line, on the console and
// on every virtio-serial port whose name begins with org.tiny: "sh COMMAND"
// answers with the command's output and "rc=" and its exit status, "help" lists
// the others. The scripts are in the folder tiny; init.sh lists the words that
// the guest understands on the kernel's command line.
//
// [Tiny] is what a test calls. It builds the guest once and finds it again in
// the user's cache directory, under a name that is the hash of its content:
// many test programs may ask for it at the same time, and a changed script or
// kernel makes a new one. The same machine builds the same bytes every time.
// [Arm64] is the same guest for an emulated arm64 machine.
package guest
