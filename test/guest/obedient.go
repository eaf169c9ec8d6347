package guest

// The lines that the guest of Obedient prints.
const (
	ObedientSays   = "OBEDIENT IS READY"    // when it begins
	ObedientHears  = "POWER BUTTON PRESSED" // when it sees the power button
	ObedientLeaves = "POWER OFF"            // before it powers off
)

// Obedient returns a disk that a BIOS can boot. Its guest prints ObedientSays on the first serial port, and powers the
// machine off when QEMU presses the ACPI power button. A guest that counts also prints numbers, as Counter does. It
// works on QEMU's machines q35 and pc, where SeaBIOS places the power management registers at 0x600.
//
// The guest prints its input from the serial port in capital letters. These letters are commands:
//
//	P  power off
//	R  reset the machine
//	X  cause a triple fault, which also resets the machine
//	K  report a panic through the ISA device pvpanic
//	D  print ObedientHears from now on, but ignore the power button
func Obedient(counts bool) []byte {
	code := append(append(beginsAndCounts(), answersLetters()...), obeysAndPrints()...)
	if !counts {
		code[obedientFlags] = 0
	}
	disk := make([]byte, 1<<20) // a BIOS ignores disks of less than a megabyte
	copy(disk, code)
	for i, text := range []string{ObedientSays, ObedientHears, ObedientLeaves} {
		copy(disk[0x100+0x20*i:], text+"\r\n\x00")
	}
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

// obedientFlags is the offset of bp's initial value in the code of Obedient: 1 counts, 2 ignores the power button.
const obedientFlags = 10

// beginsAndCounts is the code that prints the next number. Execution continues at its end.
func beginsAndCounts() []byte {
	return []byte{
		0x31, 0xc0, // start: xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0x8e, 0xd0, // mov ss, ax
		0xbc, 0x00, 0x7c, // mov sp, 0x7c00
		0xbd, 0x01, 0x00, // mov bp, 1       obedientFlags
		0x66, 0x31, 0xc9, // xor ecx, ecx
		0xba, 0xfa, 0x03, // mov dx, 0x3fa   let the port keep 16 bytes
		0xb0, 0x01, // mov al, 1
		0xee,             // out dx, al
		0xba, 0x02, 0x06, // mov dx, 0x602   PM1_EN: without this bit, QEMU ignores the power button
		0xb8, 0x00, 0x01, // mov ax, 0x100
		0xef,             // out dx, ax
		0xbe, 0x00, 0x7d, // mov si, 0x7d00  ObedientSays
		0xe8, 0xa1, 0x00, // call print
		0xfb,                   // sti
		0xf7, 0xc5, 0x01, 0x00, // next: test bp, 1
		0x74, 0x23, // jz typed
		0x66, 0x41, // inc ecx
		0x66, 0x89, 0xcb, // mov ebx, ecx
		0xbf, 0x08, 0x00, // mov di, 8
		0x66, 0xc1, 0xc3, 0x04, // digit: rol ebx, 4
		0x88, 0xd8, // mov al, bl
		0x24, 0x0f, // and al, 15
		0x04, 0x30, // add al, '0'
		0x3c, 0x3a, // cmp al, '9'+1
		0x72, 0x02, // jb number
		0x04, 0x27, // add al, 'a'-'9'-1
		0xe8, 0x89, 0x00, // number: call put
		0x4f,       // dec di
		0x75, 0xea, // jnz digit
		0xb0, 0x0a, // mov al, 10
		0xe8, 0x81, 0x00, // call put
	}
}

// answersLetters is the code after beginsAndCounts. When all input is read, execution continues at its end.
func answersLetters() []byte {
	return []byte{
		0xba, 0xfd, 0x03, // typed: mov dx, 0x3fd   has a byte come?
		0xec,       // in al, dx
		0xa8, 0x01, // test al, 1
		0x74, 0x2f, // jz button
		0xb2, 0xf8, // mov dl, 0xf8
		0xec,       // in al, dx
		0x3c, 0x50, // cmp al, 'P'
		0x74, 0x41, // je off
		0x3c, 0x52, // cmp al, 'R'
		0x74, 0x4e, // je reset
		0x3c, 0x58, // cmp al, 'X'
		0x74, 0x52, // je fault
		0x3c, 0x4b, // cmp al, 'K'
		0x74, 0x54, // je panic
		0x3c, 0x44, // cmp al, 'D'
		0x75, 0x03, // jne echo
		0x83, 0xcd, 0x02, // or bp, 2
		0x3c, 0x0d, // echo: cmp al, 13
		0x75, 0x02, // jne letter
		0xb0, 0x0a, // mov al, 10
		0x3c, 0x61, // letter: cmp al, 'a'
		0x72, 0x06, // jb said
		0x3c, 0x7a, // cmp al, 'z'
		0x77, 0x02, // ja said
		0x2c, 0x20, // sub al, 'a'-'A'
		0xe8, 0x4c, 0x00, // said: call put
		0xeb, 0xc9, // jmp typed
	}
}

// obeysAndPrints is the code after answersLetters. It waits for the next tick of the clock, 18 times a second.
func obeysAndPrints() []byte {
	return []byte{
		0xba, 0x00, 0x06, // button: mov dx, 0x600  PM1_STS: was it pressed?
		0xed,             // in ax, dx
		0xf6, 0xc4, 0x01, // test ah, 1
		0x74, 0x1d, // jz rest
		0xb8, 0x00, 0x01, // mov ax, 0x100   clear the bit
		0xef,             // out dx, ax
		0xbe, 0x20, 0x7d, // mov si, 0x7d20  ObedientHears
		0xe8, 0x2d, 0x00, // call print
		0xf7, 0xc5, 0x02, 0x00, // test bp, 2
		0x75, 0x0d, // jnz rest
		0xbe, 0x40, 0x7d, // off: mov si, 0x7d40  ObedientLeaves
		0xe8, 0x21, 0x00, // call print
		0xba, 0x04, 0x06, // mov dx, 0x604   PM1_CNT
		0xb8, 0x00, 0x20, // mov ax, 0x2000  sleep in S5
		0xef,             // out dx, ax
		0xf4,             // rest: hlt
		0xe9, 0x76, 0xff, // jmp next
		0xba, 0xf9, 0x0c, // reset: mov dx, 0xcf9   the chip set's reset
		0xb0, 0x06, // mov al, 6
		0xee,       // out dx, al
		0xeb, 0xf4, // jmp rest
		0x0f, 0x01, 0x1e, 0xf0, 0x7d, // fault: lidt [0x7df0]   an empty table of interrupts
		0xcc,             // int3
		0xba, 0x05, 0x05, // panic: mov dx, 0x505   pvpanic
		0xb0, 0x01, // mov al, 1
		0xee,       // out dx, al
		0xeb, 0xe6, // jmp rest
		0xac,       // print: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x12, // jz end
		0xe8, 0x02, 0x00, // call put
		0xeb, 0xf6, // jmp print
		0x50,             // put: push ax
		0xba, 0xfd, 0x03, // mov dx, 0x3fd
		0xec,       // wait: in al, dx
		0xa8, 0x20, // test al, 0x20
		0x74, 0xfb, // jz wait
		0x58,       // pop ax
		0xb2, 0xf8, // mov dl, 0xf8
		0xee, // out dx, al
		0xc3, // end: ret
	}
}
