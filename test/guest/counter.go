package guest

// CounterLength is the length of each line of Counter, without the line end.
const CounterLength = 8

// Counter returns a disk that a BIOS can boot. Its guest prints 1, 2, 3 … on the first serial port, 18 lines a second,
// in hexadecimal with CounterLength digits. A busy guest uses all its processor time: between two lines it writes half
// a megabyte of its memory.
func Counter(busy bool) []byte {
	code := []byte{
		0x31, 0xc0, //                   xor ax, ax
		0x8e, 0xd8, //                   mov ds, ax
		0x8e, 0xd0, //                   mov ss, ax
		0xbc, 0x00, 0x7c, //             mov sp, 0x7c00
		0x66, 0x31, 0xc9, //             xor ecx, ecx
		0xfb,       //                   sti
		0x66, 0x41, //             next: inc ecx
		0x66, 0x89, 0xcb, //             mov ebx, ecx
		0xbe, CounterLength, 0x00, //    mov si, 8
		0x66, 0xc1, 0xc3, 0x04, // digit: rol ebx, 4
		0x88, 0xd8, //                   mov al, bl
		0x24, 0x0f, //                   and al, 15
		0x04, '0', //                    add al, '0'
		0x3c, '9' + 1, //                cmp al, '9' + 1
		0x72, 0x02, //                   jb put
		0x04, 'a' - '9' - 1, //          add al, 'a' - '9' - 1
		0xba, 0xf8, 0x03, //        put: mov dx, 0x3f8
		0xee,       //                   out dx, al
		0x4e,       //                   dec si
		0x75, 0xe9, //                   jnz digit
		0xb0, '\n', //                   mov al, '\n'
		0xee, //                         out dx, al
	}
	rest := []byte{0xf4} //              hlt
	if busy {
		rest = []byte{
			0x51,             //         push cx
			0xb8, 0x00, 0x10, //         mov ax, 0x1000
			0x8e, 0xc0, //      segment: mov es, ax
			0x31, 0xff, //               xor di, di
			0xb9, 0x00, 0x80, //         mov cx, 0x8000
			0xf3, 0xab, //               rep stosw
			0x05, 0x00, 0x10, //         add ax, 0x1000
			0x3d, 0x00, 0x90, //         cmp ax, 0x9000
			0x72, 0xef, //               jb segment
			0x59, //                     pop cx
		}
	}
	const next = 13
	code = append(code, rest...)
	code = append(code, 0xeb, byte(next-len(code)-2)) // jmp next
	disk := make([]byte, 1<<20)                       // a BIOS ignores disks of less than a megabyte
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}
