package diskimage

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

// Checksum is the expected hash of the transferred bytes. The zero Checksum accepts all bytes.
type Checksum struct {
	algorithm string
	sum       string // hexadecimal, in lower case
}

// defaultAlgorithm is the algorithm of Result.Checksum if the caller expects no checksum.
const defaultAlgorithm = "sha256"

// ParseChecksum parses "sha256:HEX", "sha512:HEX", "md5:HEX", or HEX alone, which determines the algorithm by its
// length. An empty text returns the zero Checksum.
func ParseChecksum(text string) (Checksum, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Checksum{}, nil
	}
	algorithm, sum, named := strings.Cut(text, ":")
	if !named {
		algorithm, sum = "", text
	}
	raw, err := hex.DecodeString(sum)
	if err != nil {
		return Checksum{}, Refuse(InvalidSource, "checksum %q: use hexadecimal digits, as in sha256:9f86d0…", text)
	}
	for _, known := range []string{"sha256", "sha512", "md5"} {
		fits := newHash(known).Size() == len(raw)
		switch {
		case algorithm == "" && fits, strings.EqualFold(algorithm, known) && fits:
			return Checksum{known, hex.EncodeToString(raw)}, nil
		case strings.EqualFold(algorithm, known):
			return Checksum{}, Refuse(InvalidSource, "checksum %q has %d digits; %s has %d", text, len(sum), known,
				2*newHash(known).Size())
		}
	}
	if algorithm == "" {
		return Checksum{}, Refuse(InvalidSource,
			"checksum %q has %d digits: must have 64 (sha256), 128 (sha512) or 32 (md5)", text, len(sum))
	}
	return Checksum{}, Refuse(InvalidSource, "checksum %q: use sha256, sha512 or md5, not %s", text, algorithm)
}

// String returns ALGORITHM:HEX, or "" for the zero Checksum.
func (c Checksum) String() string {
	if c.algorithm == "" {
		return ""
	}
	return c.algorithm + ":" + c.sum
}

// newHash returns the hash for the checksum's algorithm or, by default, for defaultAlgorithm.
func (c Checksum) newHash() (algorithm string, h hash.Hash) {
	algorithm = c.algorithm
	if algorithm == "" {
		algorithm = defaultAlgorithm
	}
	return algorithm, newHash(algorithm)
}

func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "sha512":
		return sha512.New()
	case "md5":
		return md5.New()
	}
	return sha256.New()
}

// Verify reads a file, and returns an error if it has another checksum.
func (c Checksum) Verify(r io.Reader) error {
	algorithm, h := c.newHash()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	return c.compareWith(Checksum{algorithm, hex.EncodeToString(h.Sum(nil))})
}

// compareWith compares the checksum with the checksum of the transferred bytes.
func (c Checksum) compareWith(got Checksum) error {
	if c.algorithm != "" && c != got {
		return Refuse(ChecksumMismatch, "the image has the checksum %s, and not %s", got, c)
	}
	return nil
}
