package vmtypes

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/vmtypes/signature"
)

// archiveSigned is the prefix of the line in an archive's comment that contains the signature of the type.
const archiveSigned = "Signature "

// ArchivedModules returns the texts of the modules in an archive by file name, without the stock library.
func ArchivedModules(archive []byte) map[string]string {
	modules := map[string]string{}
	for _, f := range txtar.Parse(archive).Files {
		if !strings.HasPrefix(f.Name, stockPrefix) {
			modules[f.Name] = string(f.Data)
		}
	}
	return modules
}

// AddProof returns the archive with a signature of its type, in its comment.
func AddProof(archive []byte, p signature.Proof) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("keep the signature of a VM type: %w", err)
	}
	a := txtar.Parse(withoutLine(archive, archiveSigned))
	line := archiveSigned + base64.StdEncoding.EncodeToString(text) + "\n\n"
	a.Comment = slices.Concat(bytes.TrimRight(a.Comment, "\n"), []byte("\n"+line))
	return txtar.Format(a), nil
}

// ArchivedProof returns the signature in an archive, or nil. It is not verified.
func ArchivedProof(archive []byte) *signature.Proof {
	for line := range strings.Lines(string(txtar.Parse(archive).Comment)) {
		if encoded, is := strings.CutPrefix(line, archiveSigned); is {
			var p signature.Proof
			text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
			if err == nil && json.Unmarshal(text, &p) == nil {
				return &p
			}
		}
	}
	return nil
}

// withoutLine returns an archive without the lines of its comment that begin with a prefix.
func withoutLine(archive []byte, prefix string) []byte {
	a := txtar.Parse(archive)
	var kept []byte
	for line := range bytes.Lines(a.Comment) {
		if !bytes.HasPrefix(line, []byte(prefix)) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == len(a.Comment) {
		return archive
	}
	a.Comment = kept
	return txtar.Format(a)
}
