package operation

const (
	YAMLType   = "application/yaml"
	BinaryType = "application/octet-stream"
)
