"""Result files of other tools, each figure with the definition that its tool gives it."""
