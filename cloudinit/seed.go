package cloudinit

// MaxData is the maximum total size of the four files, in bytes (64 MiB). The image is built in memory, so this
// also limits the memory that a configuration can make a runner allocate.
const MaxData = 64 << 20

// Seed is the content of the disk, file by file. If NetworkConfig or VendorData is nil or empty, this file is
// omitted. cloud-init only accepts the disk with meta-data and user-data. If they are empty, the disk contains
// the smallest valid content without a meaning.
type Seed struct {
	MetaData, UserData, NetworkConfig, VendorData []byte
}

// A File is a file in the root directory of the disk.
type File struct {
	Name    string
	Content []byte
}

// Files returns the files of the disk, in their order. No file is empty.
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
