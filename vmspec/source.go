package vmspec

import (
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// A SourceKind says how a drive's Source is to be understood.
type SourceKind int

// The kinds of sources.
const (
	// SourceNone: there is none.
	SourceNone SourceKind = iota
	// SourceURL: by http or https.
	SourceURL
	// SourceFile: a path, which begins with /, ./ or ../.
	SourceFile
	// SourceName: a name of the list of images (package runner/images), such as debian/12.
	SourceName
)

// SourceKindOf returns what a Source is by its spelling alone.
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

// isImageName reports whether a text is one word or two, separated by a slash, of small letters,
// digits and "._-", which begin with a letter or digit.
func isImageName(text string) bool {
	words := strings.Split(text, "/")
	return len(words) <= 2 && !slices.ContainsFunc(words, func(word string) bool {
		const first = "abcdefghijklmnopqrstuvwxyz0123456789"
		return word == "" || strings.Trim(word, first+"._-") != "" || !strings.Contains(first, word[:1])
	})
}

// isMade reports whether the runner makes the drive's image where there is none.
func (d Drive) isMade() bool { return d.Size != 0 || d.Source != "" }

// source judges what a disk's image is made of.
func (c *checker) source(path string, d Drive) {
	if d.Source == "" {
		if d.SourceChecksum != "" {
			c.add(path+".sourceChecksum", "means nothing without a source").hint("give source as well")
		}
		return
	}
	switch {
	case d.File == "":
		c.add(path+".source", "is for a disk that is a file").hint("give file, which is made of it").also(
			path+".device", path+".resource", path+".nbd")
	case d.Format != "raw":
		c.add(path+".source", "the image that is made of it is raw").hint(
			"leave format out, whatever the format of the source is").also(path + ".format")
	}
	for _, wrong := range CheckSource(d.Source, d.SourceChecksum) {
		wrong.Path = path + "." + wrong.Path
		c.faults = append(c.faults, wrong)
	}
}

// CheckSource returns what is wrong with the spelling of a source and its checksum. The paths of
// the faults are "source" and "sourceChecksum".
func CheckSource(source, checksum string) []Fault {
	c := &checker{}
	switch SourceKindOf(source) {
	case SourceURL:
		bare, _, _ := Credentials(source)
		switch u, err := url.Parse(bare); {
		case err != nil || u.Host == "":
			c.add("source", "%s is not a URL", quote(bare)).hint("such as https://example.org/disk.qcow2")
		case u.Scheme != "http" && u.Scheme != "https":
			c.add("source", "can't be fetched by %s", quote(u.Scheme)).hint("by http or https; a path has no scheme")
		}
	case SourceName:
		if !isImageName(source) {
			c.add("source", "%s is neither a URL, a path nor the name of an image", quote(source)).hint(
				"a path begins with / or ./")
		}
	case SourceNone, SourceFile:
	}
	if checksum != "" && !isChecksum(checksum) {
		c.add("sourceChecksum", "%s is not a checksum", quote(checksum)).hint(
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
