package guest

// EchoSays is the first line of the guest of Echo.
const EchoSays = "ECHO IS READY"

// Echo returns a disk that a BIOS can boot. Its guest prints a line. It then prints all input from the keyboard and
// from the first serial port, both on the screen and on that port.
func Echo() []byte {
	code := []byte{
		0xea, 0x05, 0x7c, 0x00, 0x00, // ljmp 0, go
		0x31, 0xc0, //          go:   xor ax, ax
		0x8e, 0xd8, //                mov ds, ax
		0x8e, 0xd0, //                mov ss, ax
		0xbc, 0x00, 0x7c, //          mov sp, 0x7c00
		0xb8, 0xe3, 0x00, //          mov ax, 0x00e3  9600 bit/s, 8 bits
		0x31, 0xd2, //                xor dx, dx
		0xcd, 0x14, //                int 0x14
		0xbe, 0x5f, 0x7c, //          mov si, text
		0xac,       //          next: lodsb
		0x84, 0xc0, //                test al, al
		0x74, 0x05, //                je main
		0xe8, 0x25, 0x00, //          call put
		0xeb, 0xf6, //                jmp next
		0xb4, 0x01, //          main: mov ah, 1       is a key waiting?
		0xcd, 0x16, //                int 0x16
		0x74, 0x07, //                je port
		0xb4, 0x00, //                mov ah, 0       take it
		0xcd, 0x16, //                int 0x16
		0xe8, 0x16, 0x00, //          call put
		0xb4, 0x03, //          port: mov ah, 3       is a byte waiting?
		0x31, 0xd2, //                xor dx, dx
		0xcd, 0x14, //                int 0x14
		0xf6, 0xc4, 0x01, //          test ah, 1
		0x74, 0xe8, //                je main
		0xb4, 0x02, //                mov ah, 2       take it
		0x31, 0xd2, //                xor dx, dx
		0xcd, 0x14, //                int 0x14
		0xe8, 0x02, 0x00, //          call put
		0xeb, 0xdd, //                jmp main
		0x50,       //          put:  push ax
		0xb4, 0x0e, //                mov ah, 0x0e    on the screen
		0xbb, 0x07, 0x00, //          mov bx, 7
		0xcd, 0x10, //                int 0x10
		0x58,       //                pop ax
		0x50,       //                push ax
		0xb4, 0x01, //                mov ah, 1       on the port
		0x31, 0xd2, //                xor dx, dx
		0xcd, 0x14, //                int 0x14
		0x58,       //                pop ax
		0x3c, 0x0d, //                cmp al, 13
		0x75, 0x04, //                jne end
		0xb0, 0x0a, //                mov al, 10      a new line after a carriage return
		0xeb, 0xe7, //                jmp put
		0xc3, //                end:  ret
	}
	disk := make([]byte, 1<<20) // a BIOS ignores disks of less than a megabyte
	copy(disk, append(code, EchoSays+"\r\x00"...))
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}
