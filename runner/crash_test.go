package runner_test

import (
	"testing"
)

// bootSector returns a VM of the standard type that runs a program of the 8086.
func bootSector(t *testing.T, options string, code ...byte) *vm {
	t.Helper()
	v := newVM(t, "standard")
	v.sector("disk.img", code...)
	v.configure("standard", nil, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB",
		"powerdownTimeout: 0",
		"drives: [{file: disk.img, bootindex: 1}]", "options: {"+options+"}")
	v.runs()
	return v
}

// A guest that panics keeps running if the VM leaves panics to the guest, and a guest that hangs restarts. This guest
// panics, and then acts as a watchdog driver: it sets the clock to 1 MHz (two stages of a second) and lets the timer
// expire; see the data sheet of Intel's 6300ESB, 12.2.
func TestAGuestStartsAgain(t *testing.T) {
	t.Parallel()
	v := bootSector(
		t, "watchdog: reset, panic: none",
		0xba, 0x05, 0x05, //                   mov dx, 0x505  the device pvpanic
		0xb0, 0x01, //                         mov al, 1      PVPANIC_PANICKED
		0xee,                               // out dx, al
		0x66, 0xb8, 0x60, 0xd8, 0x00, 0x80, // mov eax, 0x8000d860  PCI 00:1b.0, register 0x60
		0xba, 0xf8, 0x0c, //                   mov dx, 0xcf8        address
		0x66, 0xef, //                         out dx, eax
		0xba, 0xfc, 0x0c, //                   mov dx, 0xcfc        data
		0xb8, 0x04, 0x00, //                   mov ax, 4            1 MHz
		0xef,                               // out dx, ax
		0x66, 0xb8, 0x68, 0xd8, 0x00, 0x80, // mov eax, 0x8000d868  register 0x68
		0xba, 0xf8, 0x0c, //                   mov dx, 0xcf8
		0x66, 0xef, //                         out dx, eax
		0xba, 0xfc, 0x0c, //                   mov dx, 0xcfc
		0xb0, 0x02, //                         mov al, 2            enable
		0xee,       //                         out dx, al
		0xf4,       //                         hlt
		0xeb, 0xfd, //                         jmp back to it
	)
	v.log.await(t, v.ended, "QMP event", "event", "GUEST_PANICKED", "data", "run")
	v.log.await(t, v.ended, "QMP event", "event", "WATCHDOG", "data", "reset")
	eventually(t, true, func() bool { return len(v.log.find("QMP event", "event", "GUEST_PANICKED")) >= 2 })
	v.ends()
}
