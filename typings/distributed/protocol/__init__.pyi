from distributed.protocol import pickle as pickle
