package k8s

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// InResource returns a message in which places of the configuration ("vm.drives[0].file",
// also behind "config.yaml:12:7:") are those of the resource: whoever reads it there has
// never seen the file. Quoted lines of a source stay as their author wrote them. What a VM
// type misses on the host is missing in the runner's image.
func InResource(message string) string {
	var b strings.Builder
	for line := range strings.Lines(message) {
		if strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "|") { // a source line, or the mark below one
			b.WriteString(line)
		} else {
			b.WriteString(lineInResource(line))
		}
	}
	if text := b.String(); !strings.Contains(text, inPackage) {
		return text
	}
	return strings.NewReplacer("on this host", "in the runner's image",
		inPackage, "docs/kubernetes-images.md says how an image gets Debian's package").Replace(b.String())
}

// inPackage is how the stock types say what would have a file (vmtypes/lib).
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
			b.WriteString(spelled(path) + word[len(path):] + gap)
		case gap == " " && isPosition(word):
			position = word + gap
		default:
			b.WriteString(word + gap)
		}
	}
	return b.String() + position
}

// isPath reports whether a word is a path of the configuration. Those that are words of
// the language, too, are only where a fault's path stands.
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

// spelled returns a path of the configuration as one of the resource. What of a disk or
// a network has another field there is named where it can only be that one.
func spelled(path string) string {
	at, rest := placeOf(path)
	switch {
	case rest == "":
		return at
	case strings.HasPrefix(path, "vm.drives["):
		switch rest {
		case "file": // other images are the manager's choice
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
