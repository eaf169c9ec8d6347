package guest

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The ring of records on the disk of Recorder, in bytes.
const (
	ringStart  = 1 << 20
	recordSize = 4 << 10
	ringLength = 4096 // number of records
)

// RecorderSize is the minimum size of a disk for Recorder, in bytes.
const RecorderSize = ringStart + ringLength*recordSize

// RecorderFails is the last line of a Recorder that has found a wrong number in its memory or couldn't write to its
// disk.
const RecorderFails = "!"

// Recorder returns a disk that a BIOS can boot. Its guest counts from 1 as fast as possible. It writes each number to
// 64 pages of its memory, after checking that each page contains the previous number, and to the disk, as a record of 4
// KiB that contains only the number. After the write it prints the number on the first serial port, as Counter does.
// When QEMU presses the ACPI power button, the guest powers off between two records.
func Recorder() []byte {
	code := append(countsInMemory(), writesAndPrints()...)
	disk := make([]byte, RecorderSize)
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

// countsInMemory is the code that puts the next number into ecx. Execution continues at its end.
func countsInMemory() []byte {
	return []byte{
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0x8e, 0xd0, // mov ss, ax
		0xbc, 0x00, 0x7c, // mov sp, 0x7c00
		0x88, 0x16, 0x00, 0x05, // mov byte ds:0x500, dl
		0x66, 0x31, 0xc9, // xor ecx, ecx
		0xba, 0x02, 0x06, // mov dx, 0x602
		0xb8, 0x00, 0x01, // mov ax, 0x100
		0xef,             // out dx, ax
		0xfb,             // sti
		0xb8, 0x00, 0x10, // mov ax, 0x1000
		0x8e, 0xc0, // zero: mov es, ax
		0x26, 0x66, 0x89, 0x0e, 0x00, 0x00, // mov dword es:0x0, ecx
		0x05, 0x00, 0x01, // add ax, 0x100
		0x3d, 0x00, 0x50, // cmp ax, 0x5000
		0x72, 0xf0, // jb zero
		0x66, 0x41, // next: inc ecx
		0xb8, 0x00, 0x10, // mov ax, 0x1000
		0x8e, 0xc0, // page: mov es, ax
		0x26, 0x66, 0xff, 0x06, 0x00, 0x00, // inc dword es:0x0
		0x26, 0x66, 0x39, 0x0e, 0x00, 0x00, // cmp dword es:0x0, ecx
		0x75, 0x7a, // jne bad
		0x05, 0x00, 0x01, // add ax, 0x100
		0x3d, 0x00, 0x50, // cmp ax, 0x5000
		0x72, 0xe8, // jb page
	}
}

// writesAndPrints is the code after countsInMemory. It returns to countsInMemory.
func writesAndPrints() []byte {
	return []byte{
		0x1e,             // push ds
		0x07,             // pop es
		0xbf, 0x00, 0x80, // mov di, 0x8000
		0x66, 0x89, 0xc8, // mov eax, ecx
		0x66, 0x51, // push ecx
		0xb9, 0x00, 0x04, // mov cx, 0x400
		0x66, 0xf3, 0xab, // rep stosd
		0x66, 0xc7, 0x06, 0x00, 0x06, 0x10, 0x00, 0x08, 0x00, // mov dword ds:0x600, 0x80010
		0x66, 0xc7, 0x06, 0x04, 0x06, 0x00, 0x80, 0x00, 0x00, // mov dword ds:0x604, 0x8000
		0x66, 0x48, // dec eax
		0x66, 0x25, 0xff, 0x0f, 0x00, 0x00, // and eax, 0xfff
		0x66, 0xc1, 0xe0, 0x03, // shl eax, 0x3
		0x66, 0x05, 0x00, 0x08, 0x00, 0x00, // add eax, 0x800
		0x66, 0xa3, 0x08, 0x06, // mov ds:0x608, eax
		0x66, 0x83, 0x26, 0x0c, 0x06, 0x00, // and dword ds:0x60c, 0x0
		0xb4, 0x43, // mov ah, 0x43
		0xb0, 0x00, // mov al, 0x0
		0x8a, 0x16, 0x00, 0x05, // mov dl, byte ds:0x500
		0xbe, 0x00, 0x06, // mov si, 0x600
		0xcd, 0x13, // int 0x13
		0x66, 0x59, // pop ecx
		0x72, 0x23, // jb bad
		0x66, 0x89, 0xcb, // mov ebx, ecx
		0xbe, 0x08, 0x00, // mov si, 0x8
		0x66, 0xc1, 0xc3, 0x04, // digit: rol ebx, 0x4
		0x88, 0xd8, // mov al, bl
		0x24, 0x0f, // and al, 0xf
		0x04, 0x30, // add al, 0x30
		0x3c, 0x3a, // cmp al, 0x3a
		0x72, 0x02, // jb put
		0x04, 0x27, // add al, 0x27
		0xba, 0xf8, 0x03, // put: mov dx, 0x3f8
		0xee,       // out dx, al
		0x4e,       // dec si
		0x75, 0xe9, // jne digit
		0xb0, 0x0a, // mov al, 0xa
		0xee,             // out dx, al
		0xe9, 0x0c, 0x00, // jmp button
		0xba, 0xf8, 0x03, // bad: mov dx, 0x3f8
		0xb0, 0x21, // mov al, 0x21
		0xee,       // out dx, al
		0xb0, 0x0a, // mov al, 0xa
		0xee,       // out dx, al
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
		0xba, 0x00, 0x06, // button: mov dx, 0x600
		0xed,             // in ax, dx
		0xf6, 0xc4, 0x01, // test ah, 0x1
		0x0f, 0x84, 0x5a, 0xff, // je next
		0xba, 0x04, 0x06, // mov dx, 0x604
		0xb8, 0x00, 0x20, // mov ax, 0x2000
		0xef,       // out dx, ax
		0xeb, 0xe9, // jmp halt
	}
}

// LastRecord returns the highest number on a disk of Recorder, or 0 without a record.
func LastRecord(disk []byte) (last uint32) {
	for at := ringStart; at+recordSize <= len(disk); at += recordSize {
		last = max(last, binary.LittleEndian.Uint32(disk[at:]))
	}
	return last
}

// CheckRecords checks a disk of Recorder or its beginning. It requires that the ring contains each record up to the
// last printed number, as far as the ring has room, once and complete. The ring may contain the following record.
func CheckRecords(disk []byte, last uint32) error {
	if len(disk) < RecorderSize {
		return fmt.Errorf("the disk has %d bytes", len(disk))
	}
	for place := range uint32(ringLength) {
		at := ringStart + int(place)*recordSize
		record := disk[at : at+recordSize]
		have := binary.LittleEndian.Uint32(record)
		if !bytes.Equal(record, bytes.Repeat(record[:4], recordSize/4)) {
			return fmt.Errorf("the record at place %d is torn: it begins with %d", place, have)
		}
		var want uint32 // the last number for this position
		if last > place {
			want = last - (last-1-place)%ringLength
		}
		if have == want || have == last+1 && have%ringLength == (place+1)%ringLength {
			continue
		}
		return fmt.Errorf("the record at place %d is %d, and the last one there was %d of %d", place, have, want, last)
	}
	return nil
}
