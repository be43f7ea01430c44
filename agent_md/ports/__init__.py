"""The ports of the core: the protocols for storage, workers, progress and the clock.

A store is the meeting point of all processes: any may answer, one drives. Every method is short and blocking; an
implementation may be called from several threads. Unless said otherwise a method raises StoreError (or a kind of it)
when the storage fails, and then nothing of what it was to write is stored.
"""
