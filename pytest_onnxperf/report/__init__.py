"""Values of the core turned into text: rows and lines that read well at 80 columns and without colour."""
