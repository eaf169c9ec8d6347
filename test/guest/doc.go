// Package guest builds the operating systems that tests boot in real virtual machines.
//
// The tiny guest consists of a distribution's kernel and an initramfs with busybox, about 3 MB. It boots in five
// seconds of processor time, even without KVM, and reports on its serial console, one subject per line:
//
//	TINY 0.61 init kernel=6.1.0-56-cloud-amd64
//	TINY 1.13 nocloud device=/dev/vda files=meta-data,user-data instance-id=i-1 hostname=one
//	USERDATA: #cloud-config
//	TINY 1.25 tpm version=2 code=0x00000000 clock=104 resets=1 restarts=0 pcr0=…
//	TINY 1.31 cpus count=2 online=0-1 present=0-1 possible=0-3
//	TINY 1.40 READY
//
// It then reports hot-plugged and unplugged devices, powers off when the ACPI power button is pressed, and answers
// commands. It accepts one command per line on the console and on every virtio-serial port with the prefix org.tiny:
// "sh COMMAND" answers with the command's output and "rc=" with its exit status, "help" lists the others. The scripts
// are in the folder tiny. init.sh lists the guest's options for the kernel command line.
//
// Tests call [Tiny]. It builds the guest once and keeps it in the user's cache directory, in a folder named after the
// hash of its content. Several test programs may call it at the same time, and a changed script or kernel leads to a
// new guest. Builds are reproducible on the same machine. [Arm64] is the same guest for an emulated arm64 machine.
package guest
