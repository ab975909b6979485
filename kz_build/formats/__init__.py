"""Files of anyone's: ELF, zip, APK, class files, flatbuffers, .pte. Readers with bounds."""
