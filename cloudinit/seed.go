package cloudinit

// MaxData is the most that the four files may have together, in bytes (64 MiB). An
// image is built in memory, so the limit is also what a configuration can make a
// runner allocate.
const MaxData = 64 << 20

// Seed is the content of the disk, file by file. A nil or empty network-config or
// vendor-data is a file that isn't there. meta-data and user-data must exist for
// cloud-init to accept the disk: where they are empty, the disk gets the smallest
// content that means nothing.
type Seed struct {
	MetaData, UserData, NetworkConfig, VendorData []byte
}

// A File is one file in the root directory of the disk.
type File struct {
	Name    string
	Content []byte
}

// Files lists what the disk holds, in this order. No file is empty.
func (s Seed) Files() []File {
	files := []File{
		{"meta-data", orElse(s.MetaData, "{}\n")},
		{"user-data", orElse(s.UserData, emptyUserData)},
	}
	if len(s.NetworkConfig) > 0 {
		files = append(files, File{"network-config", s.NetworkConfig})
	}
	if len(s.VendorData) > 0 {
		files = append(files, File{"vendor-data", s.VendorData})
	}
	return files
}

func orElse(content []byte, otherwise string) []byte {
	if len(content) > 0 {
		return content
	}
	return []byte(otherwise)
}
