// Command seal writes the provenance, the checksums and the signatures of a release:
//
//	SIGNING_KEY=release.key go run ./deploy/seal -version v1.0.0 -registry registry.example/vmop build/release/v1.0.0
//
// It writes provenance.json and SHA256SUMS into that folder. With a key it also writes SHA256SUMS.sig, the provenance
// in a signed envelope (provenance.intoto.jsonl), a signature for each image (vmop-runner-v1.0.0-amd64.sig.tar), and
// the public key in two formats. For images of several architectures it also writes an index that joins them under one
// name (vmop-runner-v1.0.0.index.tar), and its signature. The same files and the same key always produce the same
// output.
//
// With -package-keys it only converts the key of the packages for nfpm, which signs them when it builds them.
//
// Environment: SIGNING_KEY is an Ed25519 private key, or the name of its file. PACKAGE_KEY is an RSA private key for
// the packages, or the name of its file. RELEASE_REQUIRE_SIGNATURE=1 makes a missing key an error. BUILDER_ID is the
// URI of the builder, for the provenance. SOURCE_DATE_EPOCH is the time of the files.
//
// See docs/decisions/0182-signed-releases.md and docs/decisions/0186-signed-indexes-and-packages.md.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The files that seal writes.
const (
	checksums  = "SHA256SUMS"
	sumsSig    = "SHA256SUMS.sig"
	provenance = "provenance.json"
	envelope   = "provenance.intoto.jsonl"
	signers    = "allowed_signers" // the public key for ssh-keygen
	publicKey  = "release-key.pem" // the public key for openssl and cosign
	imageSig   = ".sig.tar"        // suffix of the signature file of an image or index
	indexFile  = ".index.tar"      // suffix of the file of an index
)

func main() {
	if err := runSeal(os.Args[1:], os.Getenv, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "seal:", err)
		os.Exit(1)
	}
}

func runSeal(args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("seal", flag.ContinueOnError)
	check := flags.Bool("check", false, "only check that the keys are usable")
	packages := flags.String("package-keys", "", "only write the private keys for nfpm into this `folder`")
	var b build
	flags.StringVar(&b.version, "version", "devel", "of the release")
	flags.StringVar(&b.registry, "registry", "", "of the images")
	flags.StringVar(&b.url, "url", "", "of the published files")
	flags.StringVar(&b.commit, "commit", "", "that was built")
	flags.StringVar(&b.root, "root", ".", "`folder` of the sources")
	flags.StringVar(&b.source, "source", "", "`URI` of the repository with that commit, such as git+https://…")
	if err := flags.Parse(args); err != nil {
		return err
	}
	key, err := readKey(getenv("SIGNING_KEY"))
	if err != nil {
		return err
	}
	if b.packageKey, err = readPackageKey(getenv("PACKAGE_KEY")); err != nil {
		return err
	}
	if required := getenv("RELEASE_REQUIRE_SIGNATURE") != ""; required && key == nil {
		return errors.New("cannot sign the release: SIGNING_KEY is not set; set it to the file of an Ed25519 " +
			"private key, or unset RELEASE_REQUIRE_SIGNATURE")
	} else if required && b.packageKey == nil {
		return errors.New("cannot sign the packages: PACKAGE_KEY is not set; set it to the file of an RSA private key, " +
			"or unset RELEASE_REQUIRE_SIGNATURE")
	}
	switch {
	case *check || *packages != "" && b.packageKey == nil:
		return nil
	case *packages != "":
		return b.packageKey.writePrivate(*packages)
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("cannot seal a release: got %d folders; name one", flags.NArg())
	}
	b.builder = getenv("BUILDER_ID")
	if b.epoch, err = strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64); err != nil {
		return errors.New("cannot seal a release: SOURCE_DATE_EPOCH must be set to seconds since 1970")
	}
	if err := sealFolder(flags.Arg(0), b, key); err != nil {
		return fmt.Errorf("cannot seal %s: %w", flags.Arg(0), err)
	}
	if key == nil {
		fmt.Fprintln(out, "seal: this release is NOT SIGNED; set SIGNING_KEY to the file of an Ed25519 private key")
		return nil
	}
	fmt.Fprintln(out, "seal: signed with the key", key.keyFingerprint())
	return nil
}

// sealFolder writes provenance, checksums and, unless key is nil, signatures for the files in a folder. It replaces the
// output of an earlier run.
func sealFolder(dir string, b build, key *signingKey) error {
	if err := removeSeals(dir); err != nil {
		return err
	}
	lists, err := readLists(dir)
	if err != nil {
		return err
	}
	images := imagesOf(lists)
	indexes, err := b.joinImages(dir, images)
	if err != nil {
		return err
	}
	images = append(images, indexes...)
	if key != nil {
		if err := key.signImages(dir, b, images); err != nil {
			return err
		}
	}
	if b.packageKey != nil {
		if err := b.packageKey.writePublic(dir); err != nil {
			return err
		}
	}
	if err := b.writeProvenance(dir, images, lists, key); err != nil {
		return err
	}
	files, err := hashFiles(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.sha256, f.name)
	}
	if err := writeFile(dir, checksums, sums.Bytes()); err != nil || key == nil {
		return err
	}
	return writeFile(dir, sumsSig, key.sshSignature(sums.Bytes()))
}

// removeSeals removes the output of an earlier run.
func removeSeals(dir string) (err error) {
	for _, pattern := range []string{
		checksums, sumsSig, provenance, envelope, signers, publicKey, rpmKey, alpineKey, "*" + imageSig,
		"*" + indexFile,
	} {
		old, failed := filepath.Glob(filepath.Join(dir, pattern))
		err = errors.Join(err, failed)
		for _, name := range old {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// writeProvenance writes the provenance of the files in a folder, and unless key is nil its signed envelope.
func (b build) writeProvenance(dir string, images []image, lists []list, key *signingKey) error {
	files, err := hashFiles(dir)
	if err != nil {
		return err
	}
	if b.locks, err = hashNamed(b.root, "go.sum", "tools/go.sum"); err != nil {
		return err
	}
	origin, err := b.provenanceOf(files, images, lists)
	if err != nil {
		return err
	}
	statement, err := json.MarshalIndent(origin, "", "  ")
	if err != nil {
		return err
	}
	statement = append(statement, '\n')
	if err := writeFile(dir, provenance, statement); err != nil || key == nil {
		return err
	}
	text, err := json.Marshal(key.signEnvelope(statement))
	if err != nil {
		return err
	}
	return writeFile(dir, envelope, append(text, '\n'))
}

func writeFile(dir, name string, content []byte) error {
	return os.WriteFile(filepath.Join(dir, name), content, 0o644)
}

// file is a file with its checksum in hexadecimal digits.
type file struct{ name, sha256 string }

// hashFiles returns the regular files of a folder, by name. It returns an error for files of another kind, because they
// would not be signed.
func hashFiles(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type() != 0 || strings.ContainsAny(e.Name(), "\\\n\r") {
			return nil, fmt.Errorf("%q: %w; a release consists of regular files", e.Name(), fs.ErrInvalid)
		}
		names = append(names, e.Name())
	}
	return hashNamed(dir, names...)
}

func hashNamed(dir string, names ...string) (files []file, err error) {
	for _, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		_ = f.Close() // opened for reading only
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		files = append(files, file{name, fmt.Sprintf("%x", hash.Sum(nil))})
	}
	return files, nil
}

// list contains the parts of a component list that the provenance needs.
type list struct {
	Metadata   struct{ Component component }
	Components []component
}

type component struct {
	PURL   string
	Hashes []struct{ Alg, Content string }
}

// sha256Sum returns the component's checksum, or "".
func (c component) sha256Sum() string {
	for _, h := range c.Hashes {
		if h.Alg == "SHA-256" {
			return h.Content
		}
	}
	return ""
}

// readLists reads the lists of components that deploy/sbom writes.
func readLists(dir string) ([]list, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.cdx.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var lists []list
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var l list
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		lists = append(lists, l)
	}
	return lists, nil
}

func (b build) buildTime() time.Time { return time.Unix(b.epoch, 0).UTC() }
