package images

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"vmop/internal/readfile"
	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// ListFile is the name of the list of images of the computer or a user, in the folder with the configurations of
// VMs.
const ListFile = "images.yaml"

// A Known is an image with a name.
type Known struct {
	// Name consists of a system and its version: "debian/12".
	Name string `yaml:"name" json:"name"`
	// URL is where the image is.
	URL string `yaml:"url" json:"url"`
	// Checksums is the publisher's file with the checksum, as a URL, or relative to URL.
	Checksums string `yaml:"checksums" json:"checksums,omitempty"`
	// Checksum is the image's checksum, "sha256:…", as an alternative to Checksums. An image may have no
	// checksum.
	Checksum string `yaml:"checksum" json:"checksum,omitempty"`
	// From is the file of the list; empty for the list that is part of the program.
	From string `yaml:"-" json:"from,omitempty"`
}

// A List contains the named images without duplicates, sorted by name.
type List []Known

// builtIn is the list that is part of the program.
//
//go:embed list.yaml
var builtIn []byte

// Lists returns the files with more images for an environment; later files take precedence.
func Lists(env config.Env) []string {
	files := []string{filepath.Join(filepath.Dir(config.DefaultFile), ListFile)}
	if own := env.Folder(); own != "" && own != filepath.Dir(config.DefaultFile) {
		files = append(files, filepath.Join(own, ListFile))
	}
	return files
}

// Read returns the built-in list, extended by the existing files. The error is of type yamlfile.Faults, or the
// error of an unreadable file.
func Read(files ...string) (List, error) {
	list, err := parseList("", builtIn)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := readfile.ReadFile(file, yamlfile.LargestFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read the list of images: %w", err)
		}
		more, err := parseList(file, text)
		if err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(k Known) bool {
			return slices.ContainsFunc(more, func(m Known) bool { return m.Name == k.Name })
		})
		list = append(list, more...)
	}
	slices.SortFunc(list, func(a, b Known) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func parseList(file string, text []byte) (List, error) {
	var into struct {
		Images List `yaml:"images"`
	}
	doc, err := yamlfile.Decode(file, text, &into)
	if err != nil {
		return nil, err
	}
	var faults []yamlfile.Problem
	first := map[string]string{}
	for i := range into.Images {
		k := &into.Images[i]
		k.From = file
		path := fmt.Sprintf("images[%d]", i)
		for _, p := range k.checkKnown() {
			p.Path = path + "." + p.Path
			faults = append(faults, p)
		}
		if other := first[k.Name]; other != "" {
			faults = append(faults, yamlfile.Problem{Path: path + ".name", Message: "is taken", Hint: "by " + other})
		}
		first[k.Name] = path
	}
	return into.Images, doc.Locate(faults)
}

// checkKnown returns the errors of an image in a list.
func (k *Known) checkKnown() (faults []yamlfile.Problem) {
	add := func(path, message, hint string) {
		faults = append(faults, yamlfile.Problem{Path: path, Message: message, Hint: hint})
	}
	if vmspec.SourceKindOf(k.Name) != vmspec.SourceName || vmspec.CheckSource(k.Name, "") != nil {
		add("name", "is not the name of an image", "such as debian/12, in small letters")
	}
	if vmspec.SourceKindOf(k.URL) != vmspec.SourceURL {
		add("url", "is not a URL", "such as https://example.org/disk.qcow2")
	}
	for _, f := range vmspec.CheckSource(k.URL, k.Checksum) {
		add(map[string]string{"source": "url", "sourceChecksum": "checksum"}[f.Path], f.Message, f.Hint)
	}
	if k.Checksums != "" && k.Checksum != "" {
		add("checksums", "checksum is given as well", "leave one of them out")
	}
	if _, err := k.checksumsURL(); err != nil {
		add("checksums", "is not a URL", "such as SHA256SUMS, relative to url")
	}
	return faults
}

// checksumsURL returns the URL of the file with the checksum; "" without such a file.
func (k *Known) checksumsURL() (string, error) {
	if k.Checksums == "" {
		return "", nil
	}
	base, err := url.Parse(k.URL)
	if err != nil {
		return "", err
	}
	at, err := base.Parse(k.Checksums)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// ErrUnknown reports that no image has the name.
var ErrUnknown = errors.New("there is no image of that name")

// Find returns the image with a name. The error is ErrUnknown, with a suggestion for a misspelled name.
func (l List) Find(name string) (Known, error) {
	names := make([]string, len(l))
	for i, k := range l {
		if names[i] = k.Name; k.Name == name {
			return k, nil
		}
	}
	hint := "vmrunner image list --known lists the names; a path begins with / or ./"
	if near := spelling.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return Known{}, fmt.Errorf("%s: %w (%s)", name, ErrUnknown, hint)
}
