from mgvm.saving.container import ModelFileError as ModelFileError
from mgvm.saving.files import load as load
from mgvm.saving.files import notes_of as notes_of
from mgvm.saving.files import save as save
