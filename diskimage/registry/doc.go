// Package registry is the source of images that are in container images: in the layout of
// KubeVirt's containerDisk, a file in the folder /disk, or in an OCI artifact, whose only layer
// is the image.
//
//	i := diskimage.Import{Source: registry.Image{Reference: "registry.example.org/debian:12"}, …}
//
// Layers are read as they come, and not stored. It is a package of its own so that a program
// that imports from elsewhere needn't link what registries take.
package registry
