package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys of annotations in the manifest of a VM type: its name, and the checksums of its modules.
const (
	TitleKey   = "org.opencontainers.image.title"
	ModulesKey = "org.jdrupes.vmop.vmtype.modules"
)

// PayloadType and SignatureKey describe a blob with a signed text in cosign's format: its media type, and the
// annotation with the signature.
const (
	PayloadType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	SignatureKey = "dev.cosignproject.cosign/signature"
)

// kind is the type of the signed text.
const kind = "cosign container image signature"

// payload is the signed text. cosign and containers/image know other fields, which have no meaning here.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional any `json:"optional"`
}

// Payload returns the text to sign for an image: its repository, and the digest of its manifest.
func Payload(repository, digest string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = repository, digest, kind
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the text to sign: %w", err)
	}
	return text, nil
}

// A Proof shows what the owner of a key has signed.
type Proof struct {
	// Manifest is the text of the manifest of a VM type.
	Manifest string `json:"manifest"`
	// Payload is the signed text, with the manifest's digest.
	Payload string `json:"payload"`
	// Signature is the signature of the payload.
	Signature []byte `json:"signature"`
}

var errOtherImage = errors.New("its signature is for something else")

// Signer returns which of the keys has signed the manifest.
func (p Proof) Signer(keys []Key) (Key, error) {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.hasSigned([]byte(p.Payload), p.Signature) })
	if i < 0 {
		return Key{}, errors.New("it is not signed with a trusted key")
	}
	var signed payload
	sum := sha256.Sum256([]byte(p.Manifest))
	if err := json.Unmarshal([]byte(p.Payload), &signed); err != nil || signed.Critical.Type != kind ||
		signed.Critical.Image.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return Key{}, errOtherImage
	}
	return keys[i], nil
}

// Covers returns an error if the manifest is for another name, or lacks one of these modules. modules maps the names of
// files, without the stock library, to their texts.
func (p Proof) Covers(name string, modules map[string]string) error {
	var manifest struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal([]byte(p.Manifest), &manifest); err != nil || manifest.Annotations[TitleKey] != name {
		return errOtherImage
	}
	signed := strings.Split(manifest.Annotations[ModulesKey], "\n")
	if len(signed) == 1 {
		return errors.New("its manifest has no checksums of the modules; push it again with this version of vmrunner")
	}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		if !slices.Contains(signed, checksumLine(file, modules[file])) {
			return fmt.Errorf("module %s was added or changed after the type was signed", file)
		}
	}
	return nil
}

// Checksums returns the value of ModulesKey: a line for each module, as sha256sum prints it.
func Checksums(modules map[string]string) string {
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		b.WriteString(checksumLine(file, modules[file]) + "\n")
	}
	return b.String()
}

func checksumLine(file, text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]) + "  " + file
}
