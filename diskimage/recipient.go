package diskimage

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"vmop/internal/atomicfile"
)

// A NewFile is a disk that is written to a new file, raw or qcow2. The file gets its name only when it is complete.
type NewFile struct {
	Recipient

	path string
	part *os.File
	done bool
}

// Create starts a file that must not exist yet. The caller must call Close.
func Create(path string, as Format) (*NewFile, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, Refuse(TargetExists, "%s already exists", path)
	}
	part, err := os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, Refuse(TargetBusy, "%s exists: another export is writing it, or was killed; in that case delete it", path+partSuffix)
	} else if err != nil {
		return nil, ofTarget("make", path+partSuffix, err)
	}
	f := &NewFile{path: path, part: part, Recipient: rawFile{part}}
	if as == QCOW2 {
		f.Recipient = &qcow2Writer{file: part}
	}
	return f, nil
}

// End completes the file and renames it to its final name.
func (f *NewFile) End(size int64) error {
	err := f.Recipient.End(size)
	if err == nil {
		err = f.part.Sync()
	}
	if err == nil {
		err = atomicfile.Rename(f.part.Name(), f.path)
	}
	f.done = err == nil
	return ofTarget("write", f.path, err)
}

// Put writes to the file.
func (f *NewFile) Put(data []byte, at int64) error {
	return ofTarget("write", f.part.Name(), f.Recipient.Put(data, at))
}

// Close removes the file unless it is complete.
func (f *NewFile) Close() error {
	if f.done {
		return f.part.Close()
	}
	return errors.Join(os.Remove(f.part.Name()), f.part.Close())
}

// rawFile is a disk in a file with holes.
type rawFile struct{ *os.File }

// Put implements Recipient.
func (f rawFile) Put(data []byte, at int64) error {
	_, err := f.WriteAt(data, at)
	return err
}

// End implements Recipient.
func (f rawFile) End(size int64) error { return f.Truncate(size) }

// Plain is a disk that is written sequentially, for example to a pipe: holes become zeros.
type Plain struct {
	W io.Writer

	at int64
}

// Put implements Recipient.
func (p *Plain) Put(data []byte, at int64) error {
	if err := p.End(at); err != nil {
		return err
	}
	n, err := p.W.Write(data)
	p.at += int64(n)
	return plainError(err)
}

// End implements Recipient.
func (p *Plain) End(size int64) error {
	for p.at < size {
		n, err := p.W.Write(zeros[:min(chunkSize, size-p.at)])
		p.at += int64(n)
		if err != nil {
			return plainError(err)
		}
	}
	return nil
}

func plainError(err error) error { return ofTarget("write", "the disk", err) }
