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

	"vmop/regular"
	"vmop/runner/config"
	"vmop/spelling"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// ListFile is the name of a list of images of the computer, and of one of its user, in the folders
// where VMs are configured.
const ListFile = "images.yaml"

// A Known is an image that has a name.
type Known struct {
	// Name is that of a system and its version: "debian/12".
	Name string `yaml:"name" json:"name"`
	// URL is where the image is.
	URL string `yaml:"url" json:"url"`
	// Checksums is a file of the publisher with the checksum, as a URL, or relative to URL.
	Checksums string `yaml:"checksums" json:"checksums,omitempty"`
	// Checksum is the image's, "sha256:…", in place of Checksums. An image may have neither.
	Checksum string `yaml:"checksum" json:"checksum,omitempty"`
	// From is the file of the list; empty: the one that comes with the program.
	From string `yaml:"-" json:"from,omitempty"`
}

// A List are images that have names, each one once, by name.
type List []Known

// builtIn is the list that comes with the program.
//
//go:embed list.yaml
var builtIn []byte

// Lists returns the files that add to the list, for an environment; later ones take precedence.
func Lists(env config.Env) []string {
	files := []string{filepath.Join(filepath.Dir(config.DefaultFile), ListFile)}
	if own := env.Folder(); own != "" && own != filepath.Dir(config.DefaultFile) {
		files = append(files, filepath.Join(own, ListFile))
	}
	return files
}

// Read returns the list that comes with the program, with those of files that are there. The error
// is of type yamlfile.Faults, or that of a file that can't be read.
func Read(files ...string) (List, error) {
	list, err := parse("", builtIn)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := regular.ReadFile(file, yamlfile.LargestFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read the list of images: %w", err)
		}
		more, err := parse(file, text)
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

func parse(file string, text []byte) (List, error) {
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
		for _, p := range k.check() {
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

// check returns what is wrong with an image of a list.
func (k *Known) check() (faults []yamlfile.Problem) {
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

// checksumsURL returns the URL of the file with the checksum; "" if there is none.
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

// ErrUnknown says that no image has a name.
var ErrUnknown = errors.New("there is no image of that name")

// Find returns the image of a name. The error is ErrUnknown, and tells what may have been meant.
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
