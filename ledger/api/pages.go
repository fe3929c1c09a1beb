package api

// Paging returns the page that a request asks for.
func (p *Page) Paging() *Page { return p }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *SessionList) Items() ([]Session, string) { return l.Sessions, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *TurnList) Items() ([]Turn, string) { return l.Turns, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *Expanded) Items() ([]Turn, string) { return l.Turns, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *Path) Items() ([]PathTurn, string) { return l.Turns, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *PolicyList) Items() ([]PolicyInfo, string) { return l.Policies, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *EventList) Items() ([]Event, string) { return l.Events, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *ChannelList) Items() ([]Channel, string) { return l.Channels, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *MemoryList) Items() ([]Memory, string) { return l.Memories, l.Next }

// Items returns the items of a page, and where the next one begins; "": it is the last.
func (l *Exported) Items() ([]ExportRecord, string) { return l.Records, l.Next }
