package tool

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash names a content: the SHA-256 of its bytes, in lower-case hex.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
