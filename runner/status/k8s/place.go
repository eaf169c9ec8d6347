package k8s

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// InResource returns a message with paths of the configuration ("vm.drives[0].file", even after
// "config.yaml:12:7:") replaced by paths of the resource: readers of the resource have never seen the file.
// Quoted source lines stay unchanged. A file that a VM type misses on the host is reported as missing in the
// runner's image.
func InResource(message string) string {
	var b strings.Builder
	for line := range strings.Lines(message) {
		if strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "|") { // a source line, or the mark below it
			b.WriteString(line)
		} else {
			b.WriteString(lineInResource(line))
		}
	}
	if text := b.String(); !strings.Contains(text, inPackage) {
		return text
	}
	return strings.NewReplacer("on this host", "in the runner's image",
		inPackage, "docs/tasks/kubernetes-images.md shows how an image gets Debian's package").Replace(b.String())
}

// inPackage is the phrase that the stock types use to name the package of a missing file (vmtypes/lib).
const inPackage = "on Debian it is in the package"

func lineInResource(message string) string {
	var b strings.Builder
	position := "" // in the file, not written yet
	for message != "" {
		word, gap := message, ""
		if end := strings.IndexAny(message, " \n\t\"'(),;"); end >= 0 {
			word, gap = message[:end], message[end:end+1]
		}
		message = message[len(word)+len(gap):]
		path := strings.TrimRight(word, ":.")
		known := isPath(path, position != "")
		if position != "" && !known {
			b.WriteString(position)
		}
		position = ""
		switch {
		case known:
			b.WriteString(pathInResource(path) + word[len(path):] + gap)
		case gap == " " && isPosition(word):
			position = word + gap
		default:
			b.WriteString(word + gap)
		}
	}
	return b.String() + position
}

// isPath reports whether a word is a path of the configuration. Paths that are also English words count only in
// the position of an error's path.
func isPath(word string, ofFault bool) bool {
	key, inVM := strings.CutPrefix(word, "vm.")
	if !inVM {
		first, _, _ := strings.Cut(word, ".")
		return ofFault && slices.Contains([]string{"vmType", "cloudInit", "provisioning", "sysprep"}, first)
	}
	if end := strings.IndexAny(key, ".["); end >= 0 {
		key = key[:end]
	}
	t := reflect.TypeFor[vmspec.Spec]()
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") == key {
			return true
		}
	}
	return false
}

// isPosition reports whether a word is a place in a file: "config.yaml:12:7:".
func isPosition(word string) bool {
	parts := strings.Split(word, ":")
	if len(parts) < 4 || parts[len(parts)-1] != "" {
		return false
	}
	for _, number := range parts[len(parts)-3 : len(parts)-1] {
		if _, err := strconv.Atoi(number); err != nil {
			return false
		}
	}
	return true
}

// pathInResource returns a path of the configuration as a path of the resource. It names the differing fields of disks
// and networks only where they are unambiguous.
func pathInResource(path string) string {
	at, rest := placeInResource(path)
	switch {
	case rest == "":
		return at
	case strings.HasPrefix(path, "vm.drives["):
		switch rest {
		case "file": // the manager chooses other images
			return at + ".cdrom.image"
		case "size":
			return at + ".volumeClaimTemplate.spec.resources.requests.storage"
		case "device", "resource":
			return at + ".volumeClaimTemplate"
		}
	case rest == "bridge":
		return at + ".tap.bridge"
	}
	return at + " (" + rest + ")"
}
