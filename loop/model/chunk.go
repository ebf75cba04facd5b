package model

// indexes backs At: chunks are made by the thousand and their Index is a pointer only
// so that JSON can leave it out.
var indexes = [16]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// At returns a pointer to i for Chunk.Index. The pointee is shared: never write to it.
func At(i int) *int {
	if i >= 0 && i < len(indexes) {
		return &indexes[i]
	}
	return &i
}

// NewBlockStart returns the chunk that opens block i; blockType is one of the Block
// types.
func NewBlockStart(i int, blockType string) Chunk {
	return Chunk{Type: ChunkBlockStart, Index: At(i), BlockType: blockType}
}

// NewTextDelta returns a piece of text block i.
func NewTextDelta(i int, text string) Chunk {
	return Chunk{Type: ChunkTextDelta, Index: At(i), Text: text}
}

// NewReasoningDelta returns a piece of reasoning block i.
func NewReasoningDelta(i int, text string) Chunk {
	return Chunk{Type: ChunkReasoningDelta, Index: At(i), Text: text}
}

// NewToolCallDelta returns a piece of tool call i. The first delta of a call carries id
// and name, later ones leave them empty.
func NewToolCallDelta(i int, id, name, arguments string) Chunk {
	return Chunk{Type: ChunkToolCallDelta, Index: At(i), ID: id, Name: name, ArgumentsDelta: arguments}
}

// NewBlockEnd returns the chunk that closes block i with its whole content.
func NewBlockEnd(i int, b Block) Chunk {
	return Chunk{Type: ChunkBlockEnd, Index: At(i), Block: &b}
}

// NewUsage returns a usage chunk.
func NewUsage(u Usage) Chunk { return Chunk{Type: ChunkUsage, Usage: &u} }

// NewFinish returns the finish chunk of a reply that ended by itself: kind is
// FinishStop, FinishToolCalls or FinishMaxTokens.
func NewFinish(kind string) Chunk {
	return Chunk{Type: ChunkFinish, Reason: &Finish{Kind: kind}}
}

// NewFailureFinish returns the finish chunk of a call that failed: kind aborted when the
// failure's code is ABORTED, else error.
func NewFailureFinish(f *Failure) Chunk {
	kind := FinishError
	if f.Code == CodeAborted {
		kind = FinishAborted
	}
	return Chunk{Type: ChunkFinish, Reason: &Finish{Kind: kind, Failure: f}}
}

// ToolCall returns a tool-call block. arguments is the raw JSON text of the call.
func ToolCall(id, name, arguments string) Block {
	return Block{Type: BlockToolCall, ID: id, Name: name, Arguments: arguments}
}

// Reasoning returns a reasoning block.
func Reasoning(s string) Block { return Block{Type: BlockReasoning, Text: s} }

// ToolResult returns the tool-result block that answers the call with that id.
func ToolResult(callID string, isError bool, content ...Block) Block {
	return Block{Type: BlockToolResult, ToolCallID: callID, Content: content, IsError: isError}
}
