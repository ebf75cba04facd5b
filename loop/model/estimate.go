package model

// Parts of an estimate that are not text.
const (
	messageTokens = 4    // a message's frame: its role and its ends
	blockTokens   = 8    // a call's or a result's frame: ids, names
	imageTokens   = 1500 // a picture, whatever its size: about what the services count at most
)

// EstimateText is about how many tokens a text is: one for four ASCII characters, one for
// each other character. It is meant to be corrected by what a service has counted, since
// every model cuts differently.
func EstimateText(s string) int {
	ascii, other := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x80:
			ascii++
		case c >= 0xc0: // the first byte of a character
			other++
		}
	}
	return (ascii+3)/4 + other
}

// EstimateMessage is about how many tokens a message is.
func EstimateMessage(m Message) int { return messageTokens + estimateBlocks(m.Content) }

func estimateBlocks(blocks []Block) (n int) {
	for i := range blocks {
		switch b := &blocks[i]; b.Type {
		case BlockText, BlockReasoning:
			n += EstimateText(b.Text)
		case BlockToolCall:
			n += blockTokens + EstimateText(b.Name) + EstimateText(b.Arguments)
		case BlockToolResult:
			n += blockTokens + estimateBlocks(b.Content)
		default:
			n += imageTokens
		}
	}
	return n
}

// EstimateTool is about how many tokens the description of a tool is.
func EstimateTool(t ToolSpec) int {
	return blockTokens + EstimateText(t.Name) + EstimateText(t.Description) + (len(t.Parameters)+3)/4
}
