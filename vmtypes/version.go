package vmtypes

// APIVersion is the version of the language that this program knows; see
// docs/vm-types/api-version.md.
const APIVersion = 1
