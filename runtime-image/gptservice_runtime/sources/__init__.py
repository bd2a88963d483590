"""Where models are downloaded from: each module is one kind of place, and answers what `transfer.source` asks for."""
