package rfb

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// greeting is the viewer's part of the handshake.
const greeting = "RFB 003.008\n\x01\x01"

// Messages that a viewer may send without controlling the guest.
var asked = map[string]string{
	"pixel format":       "\x00\x00\x00\x00" + string(make([]byte, 16)),
	"encodings":          "\x02\x00\x00\x02\x00\x00\x00\x07\xff\xff\xfe\xc7",
	"no encodings":       "\x02\x00\x00\x00",
	"picture":            "\x03\x01\x00\x00\x00\x00\x04\x00\x03\x00",
	"continuous updates": "\x96\x01\x00\x00\x00\x00\x04\x00\x03\x00",
	"fence":              "\xf8\x00\x00\x00\x80\x00\x00\x01\x03abc",
	"sound on":           "\xff\x01\x00\x00",
	"format of sound":    "\xff\x01\x00\x02\x03\x02\x00\x00\xac\x44",
}

// Messages that control the guest.
var used = map[string]string{
	"key":                "\x04\x01\x00\x00\x00\x00\x00a",
	"pointer":            "\x05\x01\x00\x10\x00\x10",
	"clipboard":          "\x06\x00\x00\x00\x00\x00\x00\x05\x04\x01\x04\x01\x04",
	"extended clipboard": "\x06\x00\x00\x00\xff\xff\xff\xfc\x05\x05\x05\x05",
	"power action":       "\xfa\x00\x01\x02",
	"size":               "\xfb\x00\x04\x00\x03\x00\x01\x00" + string(make([]byte, 16)),
	"QEMU's key":         "\xff\x00\x00\x01\x00\x00\x00a\x00\x00\x00\x1e",
}

func TestInputIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, hello := range []string{greeting, "RFB 003.007\n\x01\x01", "RFB 003.003\n\x01"} {
		sent, want := hello, hello
		for _, m := range asked {
			for _, u := range used {
				sent += u + m
				want += m
			}
		}
		for _, piece := range []int{1, 2, 3, 7, len(sent)} {
			require.Equal(t, want, passed(t, []byte(sent), piece), "in pieces of %d", piece)
		}
	}
}

// passed returns the data that the filter passes on when it receives the data in pieces.
func passed(t *testing.T, data []byte, piece int) string {
	t.Helper()
	var f Filter
	var all bytes.Buffer
	for len(data) > 0 {
		n := min(piece, len(data))
		out, err := f.Pass(data[:n])
		require.NoError(t, err)
		all.Write(out)
		data = data[n:]
	}
	return all.String()
}

// The filter changes only the handshake of a client that types, so that the client shares the screen with others.
func TestInputOfTheTypist(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{1, 5, 1000} {
		f := Filter{Input: true}
		var got string
		rest := greeting[:len(greeting)-1] + "\x00" + used["key"] + "\x63 whatever"
		for len(rest) > 0 {
			n := min(piece, len(rest))
			out, err := f.Pass([]byte(rest[:n]))
			require.NoError(t, err)
			got, rest = got+string(out), rest[n:]
		}
		require.Equal(t, greeting+used["key"]+"\x63 whatever", got)
	}
}

func TestWhatIsNotKnownEndsTheStream(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"RFB 003.889\n":                `a VNC viewer begins with "RFB 003.889\n", but must begin with RFB 003.008`,
		"RFB 003.008\n\x02":            "a VNC viewer chooses security type 2, but must choose 1, none",
		greeting + "\x07":              "a VNC viewer sends a message of the unknown type 7",
		greeting + "\xff\x02\x00\x00a": "a VNC viewer sends a message of QEMU's unknown type 2",
	} {
		var f Filter
		_, err := f.Pass([]byte(sent))
		require.EqualError(t, err, want)
		out, err := f.Pass([]byte(asked["picture"]))
		require.EqualError(t, err, want)
		require.Empty(t, out)
	}
}

// FuzzFilter checks that for any data and pieces the passed data contains no input, according to an independent reader.
func FuzzFilter(f *testing.F) {
	for _, m := range asked {
		for _, u := range used {
			f.Add([]byte(greeting+m+u+m), uint8(5))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		data = append([]byte(greeting), data...)
		whole, pieces := Filter{}, Filter{}
		want, wantErr := whole.Pass(data)
		var got []byte
		var err error
		for rest := data; len(rest) > 0 && err == nil; {
			n := min(int(piece)+1, len(rest))
			var out []byte
			out, err = pieces.Pass(rest[:n])
			got, rest = append(got, out...), rest[n:]
		}
		require.Equal(t, wantErr, err)
		require.Equal(t, string(want), string(got))
		requireNoInput(t, want[len(greeting):])
	})
}

// requireNoInput reads the data like a VNC server.
func requireNoInput(t *testing.T, data []byte) {
	t.Helper()
	for len(data) > 0 {
		var n int
		switch kind := data[0]; kind {
		case 0:
			n = 20
		case 2:
			n = 4
			if len(data) >= 4 {
				n += 4 * int(binary.BigEndian.Uint16(data[2:4]))
			}
		case 3, 150:
			n = 10
		case 248:
			n = 9
			if len(data) >= 9 {
				n += int(data[8])
			}
		case 255:
			require.GreaterOrEqual(t, len(data), 4, "the head is passed on as a whole")
			require.Equal(t, byte(1), data[1])
			n = 4
			if data[2] == 0 && data[3] == 2 {
				n = 10
			}
		default:
			t.Fatalf("a message of type %d was passed on", kind)
		}
		data = data[min(n, len(data)):]
	}
}
