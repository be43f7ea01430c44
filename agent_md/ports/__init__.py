"""The ports of the core: what the loop and the faces need of storage, of workers, and of whoever watches.

A store is the meeting point of all processes: any may answer, one drives. Every method is short and blocking; an
implementation may be called from several threads. Unless said otherwise a method raises StoreError (or a kind of it)
when the storage fails, and then nothing of what it was to write is stored.
"""
