package vmspec

import (
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// A SourceKind is the kind of a drive's Source.
type SourceKind int

// The kinds of sources.
const (
	// SourceNone means that the source is empty.
	SourceNone SourceKind = iota
	// SourceURL is an address with http or https.
	SourceURL
	// SourceFile is a path that begins with /, ./ or ../.
	SourceFile
	// SourceName is a name in the list of images (package runner/prepare/images), such as debian/12.
	SourceName
)

// SourceKindOf returns the kind of a Source, which follows from its spelling.
func SourceKindOf(source string) SourceKind {
	switch {
	case source == "":
		return SourceNone
	case strings.Contains(source, "://"):
		return SourceURL
	case strings.HasPrefix(source, "/"), strings.HasPrefix(source, "./"), strings.HasPrefix(source, "../"):
		return SourceFile
	}
	return SourceName
}

// isImageName reports whether a text consists of one or two words, separated by a slash. Words contain lower-case
// letters, digits and "._-", and begin with a letter or digit.
func isImageName(text string) bool {
	words := strings.Split(text, "/")
	return len(words) <= 2 && !slices.ContainsFunc(words, func(word string) bool {
		const first = "abcdefghijklmnopqrstuvwxyz0123456789"
		return word == "" || strings.Trim(word, first+"._-") != "" || !strings.Contains(first, word[:1])
	})
}

// isMade reports whether the runner creates the drive's image if it is missing.
func (d Drive) isMade() bool { return d.Size != 0 || d.Source != "" }

// checkSource checks the source of a disk's image.
func (c *checker) checkSource(path string, d Drive) {
	if d.Source == "" {
		if d.SourceChecksum != "" {
			c.addFault(path+".sourceChecksum", "has no effect without a source").withHint("give source as well")
		}
		return
	}
	switch {
	case d.File == "":
		c.addFault(path+".source", "is for a disk that is a file").withHint(
			"give file, which is created from it").withPaths(
			path+".device", path+".resource", path+".nbd")
	case d.Format != "raw":
		c.addFault(path+".source", "the image that is created from it is raw").withHint(
			"leave format out; the format of the source does not matter").withPaths(path + ".format")
	}
	for _, wrong := range CheckSource(d.Source, d.SourceChecksum) {
		wrong.Path = path + "." + wrong.Path
		c.faults = append(c.faults, wrong)
	}
}

// CheckSource returns the errors in the spelling of a source and its checksum. Their paths are "source" and
// "sourceChecksum".
func CheckSource(source, checksum string) []Fault {
	c := &checker{}
	switch SourceKindOf(source) {
	case SourceURL:
		bare, _, _ := Credentials(source)
		switch u, err := url.Parse(bare); {
		case err != nil || u.Host == "":
			c.addFault("source", "%s is not a URL",
				quoteClipped(bare)).withHint("such as https://example.org/disk.qcow2")
		case u.Scheme != "http" && u.Scheme != "https":
			c.addFault("source", "can't be fetched by %s",
				quoteClipped(u.Scheme)).withHint("use http or https; a path has no scheme")
		}
	case SourceName:
		if !isImageName(source) {
			c.addFault("source", "%s is neither a URL, a path nor the name of an image", quoteClipped(source)).withHint(
				"a path begins with / or ./")
		}
	case SourceNone, SourceFile:
	}
	if checksum != "" && !isChecksum(checksum) {
		c.addFault("sourceChecksum", "%s is not a checksum", quoteClipped(checksum)).withHint(
			"sha256: and 64 hexadecimal digits, sha512: and 128, or md5: and 32")
	}
	return c.faults
}

func isChecksum(text string) bool {
	algorithm, digits, _ := strings.Cut(text, ":")
	length, known := map[string]int{"sha256": 32, "sha512": 64, "md5": 16}[algorithm]
	sum, err := hex.DecodeString(digits)
	return known && err == nil && len(sum) == length
}
