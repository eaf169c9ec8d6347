package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SectorSays is the line that the guest of Sector prints.
const SectorSays = "BOOT SECTOR RUNS"

// Sector returns the first sector of a disk that a BIOS can boot. Its guest prints a line on the first serial port,
// each byte when the port is ready, and halts. It stays in real mode, so that it also runs on accelerators that can't
// run Linux, such as KVM on some virtual machines. A BIOS ignores disks of less than a megabyte.
func Sector() []byte {
	code := []byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xbe, 0x00, 0x7c, // mov si, text
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x12, // jz end
		0x88, 0xc4, // mov ah, al
		0xba, 0xfd, 0x03, // mov dx, 0x3fd
		0xec,       // wait: in al, dx
		0xa8, 0x20, // test al, 0x20
		0x74, 0xfb, // jz wait
		0x88, 0xe0, // mov al, ah
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xee,       // out dx, al
		0xeb, 0xe9, // jmp next
		0xfb,       // end: sti
		0xf4,       // hlt
		0xeb, 0xfc, // jmp end
	}
	code[5] = byte(len(code)) // the text follows the code, which is at 0x7c00
	code = append(code, SectorSays+"\r\n\x00"...)
	sector := make([]byte, 512)
	copy(sector, code)
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// RunSector runs Sector in a QEMU with an accelerator until it has printed its line.
func RunSector(ctx context.Context, accelerator string) error {
	dir, err := os.MkdirTemp("", "sector")
	if err != nil {
		return fmt.Errorf("run a boot sector: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, append(Sector(), make([]byte, 1<<20)...), 0o600); err != nil {
		return fmt.Errorf("run a boot sector: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends QEMU
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", accelerator, "-cpu", "qemu64", "-m", "32",
		"-nodefaults", "-display", "none", "-serial", "stdio", "-drive", "format=raw,file="+disk)
	printed, complaints := &firstLine{want: SectorSays, seen: cancel}, &strings.Builder{}
	cmd.Stdout, cmd.Stderr = printed, complaints
	if err := cmd.Run(); !printed.done {
		return fmt.Errorf("run a boot sector by %s: %w: %s", accelerator, err, strings.TrimSpace(complaints.String()))
	}
	return nil
}

// firstLine waits until its input contains a text.
type firstLine struct {
	want string
	seen func() // called once
	text []byte
	done bool
}

func (f *firstLine) Write(text []byte) (int, error) {
	f.text = append(f.text, text...)
	if !f.done && bytes.Contains(f.text, []byte(f.want)) {
		f.done = true
		f.seen()
	}
	return len(text), nil
}
